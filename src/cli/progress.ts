import { systemClock } from '../adapters/clock.ts';
import { wrapText } from '../report/paint.ts';
import { findServer } from './approval.ts';
import { type Invocation, isJob, type Terminal } from './command.ts';

/** Steps are said at most this often, ms: on a terminal one line that changes, else a line each. */
const stepsEvery = { terminal: 100, log: 5000 };
const secondMs = 1000;

/** What a person sees on stderr while a run takes long: what is being read, then how many requests are done. Answers Ctrl-C at once. */
export function startProgress({ settings, terminal }: Invocation) {
  let phase: 'reading' | 'planned' | 'applying' = 'reading';
  let [total, done] = [0, 0];
  let hasLine = false;
  const startedAt = systemClock.now();
  let saidAt = startedAt;
  const clear = (): void => {
    if (hasLine) terminal.stderr('\r\u001b[K');
    hasLine = false;
  };
  const replaceLine = (text: string): void => {
    terminal.stderr(terminal.stderrIsTerminal ? `\r\u001b[K${text}` : `${text}\n`);
    hasLine = terminal.stderrIsTerminal;
  };
  const onStop = (): void => {
    clear();
    if (phase === 'reading') tell(terminal, 'Stopping: the server is only being read, and nothing was written.\n');
    if (phase === 'applying') tell(terminal, describeStop(countDone(), terminal));
  };
  const countDone = (): string => `${done} of ${Math.max(total, done)}`;
  const server = findServer(settings);
  const where = server === null ? 'the server' : new URL(server).host;
  const reading = setInterval(() => {
    if (!terminal.stderrIsTerminal || terminal.stop.aborted) return;
    replaceLine(`reading rules from ${where} (${Math.round((systemClock.now() - startedAt) / secondMs)} s)`);
  }, secondMs);
  reading.unref();
  terminal.stop.addEventListener('abort', onStop, { once: true });
  const silence = answerMore(terminal, () => (phase === 'applying' ? `${countDone()} requests are done` : phase));
  const endReading = (): void => {
    clearInterval(reading);
    clear();
  };
  return {
    onPlan(requests: number): void {
      endReading();
      total = requests;
      phase = 'planned';
    },
    onApply(): void {
      phase = 'applying';
    },
    onOutcome(): void {
      phase = 'applying';
      done++;
      const now = systemClock.now();
      const isSoon = now - saidAt < (terminal.stderrIsTerminal ? stepsEvery.terminal : stepsEvery.log);
      if (isSoon || terminal.stop.aborted) return;
      saidAt = now;
      replaceLine(`applying: ${countDone()} requests`);
    },
    /** Takes the line away, before the answer is written; also where there is none. */
    end(): void {
      endReading();
      terminal.stop.removeEventListener('abort', onStop);
      silence();
    },
  };
}

function tell({ stderr, stderrIsTerminal, columns }: Terminal, text: string): void {
  stderr(wrapText(text, stderrIsTerminal ? columns : undefined));
}

function describeStop(requests: string, { env }: Terminal): string {
  const first = 'those under way end first, and rules that wait for their replacement get it.';
  const more = isJob(env)
    ? ''
    : ' A second Ctrl-C changes nothing; a third ends at once, and rules may be missing then.';
  return `Stopping after ${requests} requests: ${first}\nNothing else is started.${more}\n`;
}

/** Runs work that says how far it is: one line on a terminal's stderr that changes, from a second after now until it ends. */
export async function tellProgress<T>(terminal: Terminal, work: (say: (text: string) => void) => Promise<T>) {
  const { stderr, stderrIsTerminal } = terminal;
  const startedAt = systemClock.now();
  let saidAt = startedAt + secondMs - stepsEvery.terminal;
  try {
    return await work((text) => {
      const now = systemClock.now();
      if (!stderrIsTerminal || now - saidAt < stepsEvery.terminal) return;
      saidAt = now;
      stderr(`\r\u001b[K${text}`);
    });
  } finally {
    if (saidAt >= startedAt + secondMs) stderr('\r\u001b[K');
  }
}

/** Answers signals that stop nothing: the second, or any while an apply is taken back. */
export function answerMore(terminal: Invocation['terminal'], getPhase: () => string): () => void {
  const listener = (): void => {
    if (terminal.unstoppable !== true && !terminal.stop.aborted) return; // the first one stops, and is answered elsewhere
    const end = isJob(terminal.env) ? '' : ' A third Ctrl-C ends at once, and rules may be missing then.';
    tell(terminal, `\nStill under way (${getPhase()}), and not stopped.${end}\n`);
  };
  return terminal.onSignal?.(listener) ?? (() => undefined);
}
