import { type ApiClient, createApiClient, type ProxyVariables } from '../adapters/api/client.ts';
import { systemClock } from '../adapters/clock.ts';
import { createNftEnforcement } from '../adapters/enforcement/nft.ts';
import { openJournal } from '../adapters/journal.ts';
import type { ParserMeans } from '../adapters/manifest-parser.ts';
import { createDirectorySource } from '../adapters/source/directory.ts';
import { defaultApplyLimits } from '../apply/context.ts';
import { findOpenGaps } from '../apply/open-gaps.ts';
import type { ReadContext, ReadFailure } from '../apply/read.ts';
import { guardApi } from '../controller/lease.ts';
import { decodeSnapshot, type Snapshot } from '../live/snapshot.ts';
import { decodeJson, getErrorCode, ok, type Result } from '../model/result.ts';
import { type Approve, emptyMemory, type PassDependencies, type PassResult } from '../pass/pass.ts';
import { endPass } from '../pass/stages.ts';
import type { ApiResult, Logger, SourceContent } from '../ports.ts';
import { reconcile } from '../reconcile.ts';
import { findServer } from './approval.ts';
import { Failure, type Invocation, makeFailure, mustHave, type Settings } from './command.ts';
import { createLogger } from './logger.ts';
import { makeDesiredContext, makeParser, readTimeAsked } from './manifests.ts';
import { readLimits, readPlanOptions } from './plan-settings.ts';
import { explainReadFailure } from './read-failure.ts';
import { readNamedFile } from './read-file.ts';
import { createTokenSource, type TokenSource, warnOfOpenToken } from './token.ts';

export type WiredPass = Awaited<ReturnType<typeof wirePass>>;

/** Runs the pass over the manifests below its root, or over the content that is given. */
export async function runWired(
  { source, pass }: WiredPass,
  approve: ((content: SourceContent) => Approve) | null,
  given: SourceContent | null = null,
): Promise<PassResult> {
  const { content, problems } = given === null ? await source.read(pass.stop) : { content: given, problems: [] };
  if (content === null) return endPass('invalid', { content, problems });
  return await reconcile(content, pass, approve === null ? null : approve(content));
}

/** The API client of these settings; throws a `Failure` for a missing or wrong base URL, token or CA file. */
export function wireApi({ settings, terminal }: Invocation): { readonly api: ApiClient; readonly token: TokenSource } {
  const { baseUrl, caFile, allowHttp, timeout: requestTimeoutMs } = settings;
  if (baseUrl === null) {
    const hint = 'give --base-url https://vpn.example.com, or RECONCILE_BASE_URL; `reconcile validate` needs none';
    throw makeFailure('no-base-url', 'there is no base URL', hint);
  }
  const token = createTokenSource(settings, terminal.env);
  token.read(); // a token that cannot be read is said before anything else
  const client = createApiClient({
    ...{ baseUrl, allowHttp, requestTimeoutMs, token: token.read },
    connections: settings.concurrency + 2,
    ...(caFile === null ? {} : { caFile }),
    ...(settings.proxy === null ? {} : { proxy: readProxy(terminal.env) }),
  });
  return { api: mustHave(client, 'bad-setting'), token };
}

function readProxy(env: Invocation['terminal']['env']): ProxyVariables {
  const read = (name: string): string => env[name.toLowerCase()] ?? env[name] ?? '';
  // As curl and git take it: without a scheme it is http.
  const proxy = (name: string): string => read(name).replace(/^(?!$|[a-z0-9]+:\/\/)/i, 'http://');
  return { httpsProxy: proxy('HTTPS_PROXY'), httpProxy: proxy('HTTP_PROXY'), noProxy: read('NO_PROXY') };
}

/** Says in the log who else can read the token, and that the environment's proxy is not used: some expect it to be, some not. */
export function logAccess({ settings, terminal }: Invocation, token: TokenSource, logger: Logger): void {
  warnOfOpenToken(token, logger);
  if (settings.proxy !== null || readProxy(terminal.env).httpsProxy === '') return;
  logger.info('HTTPS_PROXY is ignored for the API; --proxy env uses it');
}

/** What all passes under these settings share. `root` is the directory of the manifests, where there is one. */
export function wireShared(invocation: Invocation, root: string | null, means: ParserMeans = {}) {
  const { settings } = invocation;
  const { concurrency, pace, timeout: requestTimeoutMs, totalTimeout: totalTimeoutMs } = settings;
  const at = readTimeAsked(settings, 'at');
  return {
    clock: systemClock,
    parse: invocation.shared?.parser(settings, root) ?? makeParser(settings, means),
    desired: makeDesiredContext(invocation, root),
    ...(at === null ? {} : { at }),
    approvals: settings.approve,
    limits: { ...defaultApplyLimits, concurrency, pace, requestTimeoutMs, totalTimeoutMs },
  };
}

/** The server, or the snapshot that stands in for it without token and secrets. `explain`: of a failed read. */
function openServer(invocation: Invocation, snapshotFile: string | null) {
  const explain = (failed: ReadFailure) =>
    explainReadFailure(failed, () => token?.read() ?? '', systemClock.wallTime());
  const snapshot = snapshotFile === null ? null : readSnapshot(snapshotFile);
  const { api, token } = snapshot === null ? wireApi(invocation) : { api: createSnapshotApi(snapshot), token: null };
  return { api, token, snapshot, explain };
}

/** The one place where adapters are built: wires one pass over the directory `root`. */
export async function wirePass(invocation: Invocation, root: string, snapshotFile: string | null = null) {
  const { settings, terminal, mayWrite } = invocation;
  const logger = await createLogger(invocation);
  const shared = wireShared(invocation, root);
  const { api, token, snapshot, explain } = openServer(invocation, snapshotFile);
  if (token !== null) logAccess(invocation, token, logger);
  const opened = settings.journal === null || token === null ? null : await openJournalAt(settings.journal);
  const pass: PassDependencies = {
    ...{ ...shared, logger, base: null, stop: terminal.stop },
    api: mayWrite === undefined ? api : guardApi(api, { mayWrite }),
    ...(snapshot === null ? wireEnforcement(settings) : { users: () => Promise.resolve(ok(snapshot.users)) }),
    journal: opened?.journal ?? null,
    options: readPlanOptions(settings, token?.fingerprintKey() ?? null),
    memory: opened === null ? emptyMemory : { ...emptyMemory, openGaps: opened.openGaps },
  };
  return {
    pass,
    explain,
    /** When the snapshot was taken; null: the server itself is read. */
    snapshot: snapshot && { takenAt: snapshot.takenAt, ageMs: systemClock.wallTime() - Date.parse(snapshot.takenAt) },
    /** What a saved plan is tied to. */
    origin: { server: findServer(settings), seal: token?.seal ?? null },
    source: createDirectorySource(root, readLimits(settings)),
    close: () => Promise.all([api.close(), opened?.journal.close()]),
  };
}

/** How these settings look at the kernel; throws a `Failure` for flags that go without `--enforcement`, and where that cannot compare. */
export function wireEnforcement(settings: Settings): Pick<PassDependencies, 'enforcement'> {
  const { enforcement, netns, waitEnforced, repair, profile, timeout } = settings;
  if (enforcement === null) {
    if (settings.failOn.includes('not-enforced'))
      throw makeFailure('usage', '--fail-on not-enforced looks at the kernel', 'add --enforcement nft');
    if (netns === null && waitEnforced === null && !repair) return {};
    throw makeFailure('usage', '--netns, --wait-enforced and --repair look at the kernel', 'add --enforcement nft');
  }
  if (profile !== 'firezone-0.7') {
    const summary = '--enforcement nft knows the table of profile firezone-0.7 only';
    throw makeFailure('usage', summary, 'leave it out, or --profile');
  }
  if (settings.file?.nested.scope?.rules === false) {
    const hint = 'leave it out, or have the repository of the rules compare them';
    throw makeFailure('usage', '--enforcement nft compares rules, which are outside `scope` in the settings', hint);
  }
  const waitMs = waitEnforced ?? (repair ? 60_000 : null);
  return { enforcement: { kernel: createNftEnforcement({ netns, timeoutMs: timeout }), repair, waitMs } };
}

type Must = <T>(read: Result<T, ReadFailure>) => T;

/** Lets a command that is no pass read the server or a snapshot. `must` throws a `Failure` that says what to do where a read failed. */
export async function askServer<T>(
  invocation: Invocation,
  ask: (context: ReadContext, must: Must, server: ReturnType<typeof openServer>) => Promise<T>,
  snapshotFile: string | null = null,
): Promise<T> {
  const server = openServer(invocation, snapshotFile);
  const { api, explain } = server;
  const must: Must = (read) => {
    if (read.ok) return read.value;
    throw new Failure([explain(read.error)]);
  };
  try {
    const { attempts } = defaultApplyLimits;
    const logger = await createLogger(invocation);
    return await ask({ api, clock: systemClock, logger, attempts, signal: invocation.terminal.stop }, must, server);
  } finally {
    await api.close();
  }
}

/** Opens the journal and reads from it which gaps a run that was killed left open. */
export async function openJournalAt(path: string) {
  try {
    const journal = await openJournal(path, systemClock.wallTime);
    return { journal, openGaps: findOpenGaps(journal.earlier) };
  } catch (error) {
    const hint = 'check --journal and --state-dir';
    throw makeFailure('journal', `the journal ${path} cannot be opened (${getErrorCode(error)})`, hint);
  }
}

const largest = 200_000_000;

function createSnapshotApi({ bodies }: Snapshot): ApiClient {
  const answer = (body: unknown): Promise<ApiResult> =>
    Promise.resolve({ kind: 'answer', status: 200, body, retryAfterMs: null });
  const message = 'a snapshot takes no writes';
  const refuse = (): Promise<ApiResult> =>
    Promise.resolve({ kind: 'no-answer', sent: 'no', code: 'refused', message, status: null });
  return {
    listRules: () => answer(bodies.rules),
    getConfiguration: () => answer(bodies.configuration),
    listUsers: refuse,
    createRule: refuse,
    updateRule: refuse,
    deleteRule: refuse,
    updateConfiguration: refuse,
    close: () => Promise.resolve(),
  };
}

/** Reads a snapshot file; throws a `Failure` that says how to make one. */
function readSnapshot(file: string): Snapshot {
  const hint = 'make one where the token is: reconcile snapshot --out FILE';
  const text = readNamedFile({ path: file, code: 'snapshot', name: `the snapshot ${file}`, largest, hint }).toString();
  const value = decodeJson(text);
  if (value === undefined) throw makeFailure('snapshot', `the snapshot ${file} is not JSON`, hint);
  const decoded = decodeSnapshot(value);
  if (!decoded.ok) throw makeFailure('snapshot', `the snapshot ${file} cannot be used: ${decoded.error}`, hint);
  return decoded.value;
}
