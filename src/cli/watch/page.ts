import { systemClock } from '../../adapters/clock.ts';
import { liveScript } from '../../adapters/web/live-script.ts';
import type { PageView } from '../../adapters/web/status-app.ts';
import type { Status } from '../../controller/status.ts';
import { escapeControls } from '../../model/printable.ts';
import { toWire } from '../../model/rule.ts';
import { listNextWindows } from '../../plan/guard/windows.ts';
import { indexRules } from '../../policy/rule-index.ts';
import { showBoundaries } from '../../report/change-words.ts';
import { makePacketMembers, type NamedRule, renderPacketReport, reportPacket } from '../../report/explain.ts';
import { findForge } from '../../report/forge.ts';
import { writePolicy } from '../../report/html.ts';
import { pageScript, pageStyle } from '../../report/html-assets.ts';
import { formatSafeJson, formatVersion, makeDocument } from '../../report/json.ts';
import { formatRule } from '../../report/rule-text.ts';
import { makeProblemReport, type RunReport } from '../../report/run-report.ts';
import { makeSidecarDocument, type RuleLine, type SidecarState, searchRules } from '../../report/sidecar.ts';
import { packetFields, renderSidecar, renderSignIn } from '../../report/sidecar-html.ts';
import { Failure, makeFailure, type Settings } from '../command.ts';
import { readProfile, readWindows } from '../plan-settings.ts';
import { findNamedUser, readPacket } from '../question.ts';
import type { SeenPlan, Sight } from './sight.ts';

/** What the pages are made from; `running` is null until the settings could be used. */
export interface PageSources {
  readonly status: () => Status;
  readonly running: { readonly settings: Settings; readonly sight: Sight | null } | null;
}

export const script = pageScript + liveScript;

/** What every page of a sidecar has. */
export const frame: Pick<PageView, 'policy' | 'signIn'> = {
  policy: `${writePolicy(pageStyle, script)}; connect-src 'self'; form-action 'self'; frame-ancestors 'none'`,
  signIn: (problem) => renderSignIn(problem, script),
};

/** The page of the sidecar and its JSON documents. Without a sign-in they hold no e-mail address. */
export function createPages(sources: PageSources): PageView {
  const look = (isSignedIn: boolean): Look => new Look(sources, isSignedIn);
  return {
    ...frame,
    version: () => JSON.stringify(sources.status()),
    page: (asked, { isSignedIn, hasSession }) => {
      const words = readTyped(asked, 'q');
      const packet = readTypedPacket(asked);
      const seen = look(isSignedIn);
      const answer = packet.destination === '' ? null : seen.explain(packet).text;
      const { lines } = seen;
      const found = searchRules(lines, words);
      const question = { words, total: lines.length, found, packet, answer, script, isSignedIn: hasSession };
      return seen.safe(renderSidecar(seen.state, question));
    },
    document: (name, asked, isSignedIn) => {
      const seen = look(isSignedIn);
      const value = Object.hasOwn(documents, name) ? documents[name]?.(seen, asked) : undefined;
      return value === undefined ? null : seen.safe(formatSafeJson(value));
    },
  };
}

function readTyped(asked: URLSearchParams, name: string): string {
  return escapeControls(asked.get(name)?.trim() ?? '');
}

function readTypedPacket(asked: URLSearchParams) {
  const [destination = '', protocol = '', port = '', user = ''] = packetFields.map((name) => readTyped(asked, name));
  return { destination, protocol, port, user };
}

const documents: Readonly<Record<string, (seen: Look, asked: URLSearchParams) => unknown>> = {
  status: ({ state }) => makeSidecarDocument(state),
  plan: ({ state }) => makeDocument(state.plan ?? makeProblemReport([])),
  rules: ({ lines }, asked) => ({
    format_version: formatVersion,
    rules: searchRules(lines, asked.get('q') ?? '').map(({ rule: { name, id, rule, place } }) => {
      return { name, id, ...toWire(rule), file: place?.file ?? null, line: place?.line ?? null };
    }),
  }),
  explain: (seen, asked) => ({ format_version: formatVersion, ...seen.explain(readTypedPacket(asked)).members }),
};

/** What is known at one moment, for one reader. */
class Look {
  readonly #isSignedIn: boolean;
  readonly #settings: Settings | null;
  readonly #seen: SeenPlan | null;
  readonly state: SidecarState;

  constructor(sources: PageSources, isSignedIn: boolean) {
    this.#isSignedIn = isSignedIn;
    const { settings, sight } = sources.running ?? { settings: null, sight: null };
    this.#settings = settings;
    const status = cleaned(sources.status());
    const seen = sight?.rules ?? null;
    this.#seen = seen;
    const forge = settings?.gitUrl ? findForge(settings.gitUrl, settings.gitPath) : null;
    const now = systemClock.wallTime();
    const atHand = sight?.planAtHand(status.plan?.digest ?? null) ?? null;
    const userNames = this.#names(seen);
    this.state = {
      ...{ status, now, forge, userNames },
      plan: atHand === null ? null : { ...this.#report(atHand), server: status.server ?? null, forge },
      boundaries: seen?.desired ? showBoundaries(seen.desired, now, userNames) : [],
      windows: listNextWindows(readWindows(this.#settings), now),
      ...revisionsOf(sight, status.revisions.observed),
    };
  }

  get lines(): readonly RuleLine[] {
    const { userNames } = this.state;
    return this.#rules().map((rule) => {
      const name = escapeControls(rule.name ?? rule.id ?? 'rule');
      const what = formatRule(rule.rule, userNames);
      return { rule, name, what, text: `${name} ${what}`.toLowerCase() };
    });
  }

  /** The verdict on a packet by the live rules, or what is wrong with the question. */
  explain({ destination, protocol, port, user }: ReturnType<typeof readTypedPacket>) {
    const { userNames } = this.state;
    const rules = this.#rules();
    try {
      if (this.#settings === null) throw makeFailure('usage', 'nothing is known yet');
      if (!/^\d{0,5}$/.test(port) || Number(port) > 65535) throw makeFailure('usage', `${port} is no port`);
      const question = readPacket({
        destination,
        protocol: protocol === '' ? null : protocol,
        port: port === '' ? null : Number(port),
        user: [],
      });
      const from = user === '' ? null : findNamedUser(user, { userNames });
      const report = reportPacket({ ...question, user: from }, indexRules(rules), readProfile(this.#settings).ports);
      return { text: renderPacketReport(report, userNames, false), members: makePacketMembers(report) };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const [{ summary, hint = '' } = { summary: '' }] = error.problems;
      // The fields of the form have the names of the flags.
      const text = escapeControls(`${summary}${hint === '' ? '' : `: ${hint}`}`.replace(/--(?=[a-z])/g, ''));
      return { text, members: { error: text } };
    }
  }

  /** Names and texts may hold e-mail addresses: of people, so for people who signed in. */
  safe(text: string): string {
    return this.#isSignedIn
      ? text
      : text.replace(/[\w.+-]+@(?=[\w-]+(?:\.[\w-]+)+)/g, (name) => (name === 'git@' ? name : '…@'));
  }

  /** The live rules, by the names that manifests have for them; the status, which is asked for often, does without. */
  #rules(): readonly NamedRule[] {
    if (this.#seen === null) return [];
    const { plan, isDone } = this.#seen;
    return plan.changes.flatMap((change): readonly NamedRule[] => {
      if (change.kind !== 'Rule') return [];
      const { name, id, source: place, desired, live, action } = change;
      const rule = isDone && action !== 'skip' ? desired : (live ?? (action === 'keep' ? desired : null));
      return rule === null ? [] : [{ rule: rule.rule, name, id, place }];
    });
  }

  #names(seen: SeenPlan | null): ReadonlyMap<string, string> {
    const names = [...(seen?.desired?.userNames ?? [])];
    return new Map(this.#isSignedIn ? names : names.filter(([, name]) => !name.includes('@')));
  }

  #report(seen: SeenPlan): RunReport {
    const { plan, digest, revision, desired } = seen;
    const groups = desired?.groups ?? new Map<string, ReadonlySet<string>>();
    return { ...makeProblemReport([]), plan, digest, revision, groups, userNames: this.#names(seen) };
  }
}

/** What is known of the newest revision, and who wrote which. */
function revisionsOf(sight: Sight | null, newest: string | null): Pick<SidecarState, 'problems' | 'authors'> {
  const known = [...(sight?.revisions ?? [])];
  return {
    problems: known.find(([revision]) => revision === newest)?.[1].problems ?? [],
    authors: new Map(known.map(([revision, { author }]) => [revision, author])),
  };
}

/** The status with every text safe to show: names and remote text may hold escapes and characters that change direction. */
function cleaned(status: Status): Status {
  return JSON.parse(
    JSON.stringify(status, (_key, value: unknown) => (typeof value === 'string' ? escapeControls(value) : value)),
  );
}
