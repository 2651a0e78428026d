import { systemClock } from '../../adapters/clock.ts';
import { liveScript } from '../../adapters/web/live-script.ts';
import type { PageView } from '../../adapters/web/status-app.ts';
import type { Status } from '../../controller/status.ts';
import { getOrMake } from '../../model/group-by.ts';
import { escapeControls } from '../../model/printable.ts';
import { toWire } from '../../model/rule.ts';
import { listNextWindows } from '../../plan/guard/windows.ts';
import { indexRules } from '../../policy/rule-index.ts';
import { formatRule } from '../../policy/words.ts';
import { listShownBoundaries } from '../../report/change-words.ts';
import { makePacketMembers, type NamedRule, renderPacketReport, reportPacket } from '../../report/explain.ts';
import { findForge } from '../../report/forge.ts';
import { writePolicy } from '../../report/html.ts';
import { pageScript, pageStyle } from '../../report/html-assets.ts';
import { formatSafeJson, formatVersion, makeDocument } from '../../report/json.ts';
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
  return {
    ...frame,
    version: () => JSON.stringify(sources.status()),
    page: (asked, { isSignedIn, hasSession }) => {
      const words = readTyped(asked, 'q');
      const packet = readTypedPacket(asked);
      const seen = look(sources, isSignedIn);
      const answer = packet.destination === '' ? null : explain(seen, packet).text;
      const lines = listLines(seen);
      const found = searchRules(lines, words);
      const question = { words, total: lines.length, found, packet, answer, script, isSignedIn: hasSession };
      return hideEmails(renderSidecar(seen.state, question), isSignedIn);
    },
    document: (name, asked, isSignedIn) => {
      const make = Object.hasOwn(documents, name) ? documents[name] : undefined;
      if (make === undefined) return null;
      const write = () => Buffer.from(hideEmails(formatSafeJson(make(look(sources, isSignedIn), asked)), isSignedIn));
      const isLarge = name === 'plan' || (name === 'rules' && !asked.get('q'));
      return isLarge ? keepLast(sources, `${name} ${isSignedIn}`, write) : write();
    },
  };
}

/** The large documents as they were last written, so that many who ask at once share the work and the bytes. */
const written = new WeakMap<PageSources, Map<string, Written>>();
type Written = { readonly version: string; readonly rules: unknown; readonly bytes: Buffer<ArrayBuffer> };

function keepLast(sources: PageSources, name: string, write: () => Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
  const [version, rules] = [JSON.stringify(sources.status()), sources.running?.sight?.rules];
  const last = written.get(sources)?.get(name);
  if (last?.version === version && last.rules === rules) return last.bytes;
  const bytes = write();
  getOrMake(written, sources, () => new Map()).set(name, { version, rules, bytes });
  return bytes;
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
  rules: (seen, asked) => ({
    format_version: formatVersion,
    rules: searchRules(listLines(seen), asked.get('q') ?? '').map(({ rule: { name, id, rule, place } }) => {
      return { name, id, ...toWire(rule), file: place?.file ?? null, line: place?.line ?? null };
    }),
  }),
  explain: (seen, asked) => ({ format_version: formatVersion, ...explain(seen, readTypedPacket(asked)).members }),
};

type Look = ReturnType<typeof look>;

/** What is known at one moment, for one reader. */
function look(sources: PageSources, isSignedIn: boolean) {
  const { settings, sight } = sources.running ?? { settings: null, sight: null };
  const status = cleaned(sources.status());
  const seen = sight?.rules ?? null;
  const forge = settings?.gitUrl ? findForge(settings.gitUrl, settings.gitPath) : null;
  const now = systemClock.wallTime();
  const atHand = sight?.planAtHand(status.plan?.digest ?? null) ?? null;
  const { userNames, userIds } = namesOf(seen, isSignedIn);
  const state: SidecarState = {
    ...{ status, now, forge, userNames },
    plan: atHand === null ? null : { ...reportOf(atHand, isSignedIn), server: status.server ?? null, forge },
    boundaries: seen?.desired ? listShownBoundaries(seen.desired, now) : [],
    windows: listNextWindows(readWindows(settings), now),
    ...revisionsOf(sight, status.revisions.observed),
  };
  return { state, settings, seen, userIds };
}

function listLines({ state: { userNames }, seen }: Look): readonly RuleLine[] {
  return listRules(seen).map((rule) => {
    const name = escapeControls(rule.name ?? rule.id ?? 'rule');
    const what = formatRule(rule.rule, userNames);
    return { rule, name, what, text: `${name} ${what}`.toLowerCase() };
  });
}

/** The verdict on a packet by the live rules, or what is wrong with the question. */
function explain({ state: { userNames }, settings, seen, userIds }: Look, packet: ReturnType<typeof readTypedPacket>) {
  const { destination, protocol, port, user } = packet;
  try {
    if (settings === null) throw makeFailure('usage', 'nothing is known yet');
    if (!/^\d{0,5}$/.test(port) || Number(port) > 65535) throw makeFailure('usage', `${port} is not a port`);
    const given = { protocol: protocol || null, port: port === '' ? null : Number(port) };
    const question = readPacket({ destination, ...given, user: [] });
    const from = user === '' ? null : findNamedUser(user, { userNames, userIds });
    const report = reportPacket({ ...question, user: from }, indexRules(listRules(seen)), readProfile(settings).ports);
    return { text: renderPacketReport(report, userNames, false), members: makePacketMembers(report) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const [{ summary, hint = '' } = { summary: '' }] = error.problems;
    const words = `${summary}${hint === '' ? '' : `: ${hint}`}`;
    // The fields of the form have the names of the flags.
    const text = escapeControls(words.replace(/--(?=(?:destination|protocol|port|user)\b)/g, ''));
    return { text, members: { error: text } };
  }
}

/** Names and texts may hold e-mail addresses: of people, so for people who signed in. */
function hideEmails(text: string, isSignedIn: boolean): string {
  if (isSignedIn) return text;
  return text.replace(/[\w.+-]+@(?=[\w-]+(?:\.[\w-]+)+)/g, (name) => (name === 'git@' ? name : '…@'));
}

/** The live rules, by the names that manifests have for them; the status, which is asked for often, does without. */
function listRules(seen: SeenPlan | null): readonly NamedRule[] {
  if (seen === null) return [];
  return seen.plan.changes.flatMap((change): readonly NamedRule[] => {
    if (change.kind !== 'Rule') return [];
    const { name, id, source: place, desired, live, action } = change;
    const rule = seen.isDone && action !== 'skip' ? desired : (live ?? (action === 'keep' ? desired : null));
    return rule === null ? [] : [{ rule: rule.rule, name, id, place }];
  });
}

function namesOf(seen: SeenPlan | null, isSignedIn: boolean) {
  const { userNames = new Map<string, string>(), userIds = new Map<string, string>() } = seen?.desired ?? {};
  const isShown = (name: string): boolean => isSignedIn || !name.includes('@');
  return {
    userNames: new Map([...userNames].filter(([, name]) => isShown(name))),
    userIds: new Map([...userIds].filter(([name]) => isShown(name))),
  };
}

function reportOf(seen: SeenPlan, isSignedIn: boolean): RunReport {
  const { plan, digest, revision, desired } = seen;
  const groups = desired?.groups ?? new Map<string, ReadonlySet<string>>();
  return { ...makeProblemReport([]), plan, digest, revision, groups, ...namesOf(seen, isSignedIn) };
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
  const clean = (_key: string, value: unknown) => (typeof value === 'string' ? escapeControls(value) : value);
  return JSON.parse(JSON.stringify(status), clean);
}
