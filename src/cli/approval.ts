import { systemClock } from '../adapters/clock.ts';
import { escapeControls } from '../model/printable.ts';
import { makeError, makeNote, type Problem } from '../model/problem.ts';
import type { BackOrder } from '../pass/go-back.ts';
import { findClosedWindow } from '../plan/guard/windows.ts';
import type { Plan, Refusal } from '../plan/plan.ts';
import { count, countActions } from '../report/summary.ts';
import { joinWords } from '../report/traffic/people.ts';
import type { Invocation, Settings } from './command.ts';
import { readTimeAsked } from './manifests.ts';
import { readWindows } from './plan-settings.ts';

/** What keeps this run from writing, a closed `window` among them; null: nothing. Without `--yes` only a person at a terminal applies. */
export function findObstacle({ settings, terminal }: Invocation, window: Problem | null): Problem | null {
  const toLook = 'To see the changes only, add --dry-run.';
  if (settings.suspend) {
    const by = settings.origins.get('suspend') ?? '--suspend';
    const hint = `${by === '--suspend' ? 'Leave --suspend out' : 'To write once all the same: --no-suspend'}. ${toLook}`;
    return makeError('suspended', `Writing is suspended by ${by}: nothing was written`, hint);
  }
  if (window?.code === 'outside-window') return { ...window, severity: 'error' };
  if (settings.yes || terminal.stdinIsTerminal) return null;
  const summary = 'There is no terminal to ask on; give --yes to apply: nothing was written';
  return makeError('no-terminal', summary, `In scripts, cron and CI, add --yes to the same line. ${toLook}`);
}

/** That this plan is held until a window opens, or that somebody decided that it does not; null: neither. */
export function explainWindow(settings: Settings, plan: Plan | null): Problem | null {
  if (plan === null || plan.steps.length === 0) return null;
  const closed = findClosedWindow(readWindows(settings), plan, readTimeAsked(settings, 'at') ?? systemClock.wallTime());
  if (closed === null) return null;
  const summary = `no window is open; overridden: ${settings.overrideWindow}`;
  if (settings.overrideWindow?.trim()) return { code: 'window-overridden', severity: 'note', summary };
  const then = closed.opensAt === null ? 'Check `windows`, or apply it' : 'Only a sidecar waits: apply it then, or';
  return makeNote('outside-window', closed.message, `${then} now with --override-window REASON.`);
}

/** Asks whether to apply the plan that was just shown; true for `y` and `yes` alone. */
export async function askToApply({ settings, terminal }: Invocation, plan: Plan): Promise<boolean> {
  const server = findServer(settings);
  // `58 creates, 1 replacement and 1 delete`
  const nounOf = (action: string): string => (action === 'replace' ? 'replacement' : action);
  const changes = countActions(plan).map(([action, number]) => count(number, nounOf(action)));
  return await saysYes(terminal, `Apply ${joinWords(changes)}${server === null ? '' : ` to ${server}`}?`);
}

async function saysYes({ ask, stop }: Invocation['terminal'], question: string): Promise<boolean> {
  return /^y(es)?$/i.test((await ask(`\n${question} [y/N] `, stop))?.trim() ?? '');
}

/** Asks for each secret that nothing binds. Null: nobody to ask, a person said no, or the plan is refused for more than this. */
export async function askToBind(invocation: Invocation, refusals: readonly Refusal[]) {
  const { settings, terminal } = invocation;
  const bindings = refusals.flatMap(({ binding }) => binding ?? []);
  if (settings.yes || bindings.length < refusals.length || findObstacle(invocation, null) !== null) return null;
  for (const { name, provider, host } of bindings) {
    const question = escapeControls(`Send the secret ${name} to ${host}, for the provider ${provider}?`);
    if (!(await saysYes(terminal, question))) return null;
  }
  return bindings;
}

/** The server's address as outputs show it: without credentials. Null without one that is an address. */
export function findServer({ baseUrl }: Pick<Settings, 'baseUrl'>): string | null {
  if (baseUrl === null || !URL.canParse(baseUrl)) return null;
  const { origin, pathname } = new URL(baseUrl);
  // Of a scheme that is not of the web (`htps:`).
  return origin === 'null' ? null : `${origin}${pathname.replace(/\/+$/, '')}`;
}

/**
 * That no policy test had a say in what an undo (`back`) opens. On the first apply to a server, that rules which are in no manifest are
 * deleted: they may be somebody's only copy.
 */
export function announce(plan: Plan | null, back: BackOrder | undefined, isFirst: boolean): readonly Problem[] {
  if (back !== undefined && !back.goesBack && plan?.effect.opens.length) {
    const summary =
      'This opens traffic, and no policy test was run: an undo does not read the manifests, where they are.';
    return [makeNote('tests-not-run', summary, '`protect` in the settings is a guard of an undo too.')];
  }
  const unknown = plan?.changes.filter(({ reason, name }) => reason === 'not-desired' && name === null) ?? [];
  if (!isFirst || unknown.length === 0) return [];
  const verb = unknown.length === 1 ? 'is in no manifest and will' : 'are in no manifest and will';
  const hint = 'To keep them, take them over first: reconcile export --out DIR writes them as manifests.';
  return [makeNote('unknown-live-rules', `${count(unknown.length, 'live rule')} ${verb} be deleted`, hint)];
}
