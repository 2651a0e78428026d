import { readBytes } from '../../adapters/read-bytes.ts';
import { escapeControls } from '../../model/printable.ts';
import { decodeJsonObject, getErrorCode, isObject } from '../../model/result.ts';
import { formatSafeJson } from '../../report/json.ts';
import { createPaint } from '../../report/paint.ts';
import { type Answer, exitCodes, type Invocation, makeFailure } from '../command.ts';
import { readNamedFile } from '../read-file.ts';

export const defaultSidecar = 'http://127.0.0.1:8080';

const timeoutMs = 5000;
const largest = 20_000_000;

/** `reconcile status [URL]`: exit 0 when the sidecar is ready, 2 while unknown, 1 when not. `--probe` asks `/healthz` alone. */
export async function run({ operands, settings, terminal }: Invocation): Promise<Answer> {
  const base = baseOf(operands[0] ?? defaultSidecar);
  if (settings.probe) {
    const { ok } = await ask(new URL('healthz', base), null, terminal.stop);
    return { exit: ok ? exitCodes.ok : exitCodes.failed, text: () => (ok ? 'ok\n' : 'no progress\n') };
  }
  const { listenTokenFile: path } = settings;
  const file = { code: 'bad-setting', name: `the token file ${path}`, hint: 'check --listen-token-file' } as const;
  const token = path === null ? null : String(readNamedFile({ path, ...file, largest: 65_536 })).trim();
  const answer = await ask(new URL('status', base), token, terminal.stop);
  if (answer.status === 401 || answer.status === 403)
    throw makeFailure('usage', `${base.href} wants its token`, 'name the file that holds it: --listen-token-file FILE');
  const status = decodeJsonObject(answer.text);
  if (!answer.ok || !isObject(status?.['conditions'])) {
    const hint = 'check the URL: `reconcile watch` serves it at --listen; of a fleet give --fleet FILE';
    throw makeFailure('usage', `${base.href}status is not the page of a sidecar (status ${answer.status})`, hint);
  }
  return {
    exit: exitCodeOfStatus(status),
    result: tell(membersOf(status['headline'])['text']),
    text: ({ color }) => describe(status, color),
    document: () => formatSafeJson(status),
  };
}

type Members = Readonly<Record<string, unknown>>;

function baseOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const summary = `${text.replace(/.*@/, '…@')} is not the address of a sidecar`;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username + url.password !== '')
    throw makeFailure('usage', summary, 'such as http://127.0.0.1:8080');
  return new URL(url.href.replace(/\/*$/, '/'));
}

async function ask(url: URL, token: string | null, stop: AbortSignal) {
  const late = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await fetch(url, {
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
      redirect: 'error',
      signal: AbortSignal.any([stop, late]),
    });
    // Of one that is longer than what a sidecar sends, nothing: that is no JSON.
    const body = answer.body === null ? null : await readBytes(answer.body, largest);
    return { ok: answer.ok, status: answer.status, text: new TextDecoder().decode(body ?? undefined) };
  } catch (error) {
    const code = getErrorCode(error instanceof Error ? error.cause : error, 'connection failed');
    const summary = `${url.href} does not answer (${late.aborted ? 'no answer in time' : code})`;
    throw makeFailure('api-refused', summary, 'check that the sidecar runs, and its --listen');
  }
}

/** A value for people: whoever answers may write what moves a terminal, and objects where there are none. */
function tell(value: unknown): string {
  return typeof value === 'object' || value === undefined ? '' : escapeControls(String(value));
}

function membersOf(value: unknown): Members {
  return isObject(value) ? value : {};
}

function exitCodeOfStatus({ conditions }: Members): number {
  const { Ready, Reconciling } = membersOf(conditions);
  const [ready, busy] = [membersOf(Ready)['status'], membersOf(Reconciling)];
  if (ready === 'True') return exitCodes.ok;
  // A retry may go on for days: the server is down.
  const isPending = ready === 'Unknown' || (busy['status'] === 'True' && busy['reason'] !== 'Retrying');
  return isPending ? exitCodes.pending : exitCodes.failed;
}

/** A commit or a digest, of which twelve characters tell enough. */
const longId = /\b([0-9a-f]{12})[0-9a-f]{28,}\b/;

const tones = { True: 'strong', False: 'error', Unknown: 'warning' } as const;

function describe(status: Members, color: boolean): string {
  const paint = createPaint(color);
  const revisions = membersOf(status['revisions']);
  // A sidecar of 0.1 has none.
  const { text, advice, command } = membersOf(status['headline']);
  const headline = [text, advice ? `${tell(advice)} ${tell(command)}` : null].map(tell).filter((line) => line !== '');
  const conditions = Object.values(membersOf(status['conditions'])).map((value) => {
    const { type, status: state, reason, message } = membersOf(value);
    const shown = tell(state).padEnd(7);
    const isKey = type === 'Ready' && (state === 'True' || state === 'False' || state === 'Unknown');
    const words = [reason, message].filter(Boolean).map(tell).join(': ');
    return `${tell(type).padEnd(12)} ${isKey ? paint(tones[state], shown) : shown} ${words}`;
  });
  const { server, source, liveRules, drift, role, suspended, version } = status;
  const { applied, inForce, observed } = revisions;
  const shown = { applied, 'in force': inForce === applied ? null : inForce, observed };
  const facts = { server, source, ...shown, 'live rules': liveRules, drift, role, suspended, version };
  const known = Object.entries(facts).filter(([, value]) => (value ?? '') !== '');
  return [
    ...headline.map((line) => paint('strong', line)),
    ...conditions,
    '',
    ...known.map(([name, value]) => `${name.padEnd(12)} ${tell(value).replace(longId, '$1')}`),
    '',
  ].join('\n');
}
