import { checkDiscovery, readCertificate, readServerTime } from '../../adapters/api/probe.ts';
import { systemClock } from '../../adapters/clock.ts';
import { readLive } from '../../apply/read.ts';
import { exportConfiguration } from '../../desired/export-configuration.ts';
import { listEnforcementProblems } from '../../enforcement/report.ts';
import { diagnoseConfiguration, noPortRule } from '../../live/diagnose.ts';
import type { LiveConfiguration } from '../../model/configuration.ts';
import { hasErrors, makeError, makeNote, makeWarning, type Problem } from '../../model/problem.ts';
import type { Profile } from '../../model/profile.ts';
import { isModifiedInPlace, type LiveRule } from '../../model/rule.ts';
import { wholeScope } from '../../model/state.ts';
import { mostApartMs } from '../../pass/clock.ts';
import { noteUnknownFields, warnOfModified } from '../../plan/make-plan.ts';
import { renderDocument } from '../../report/json.ts';
import { createPaint } from '../../report/paint.ts';
import { formatProblemCounts, renderProblems } from '../../report/problems.ts';
import { count, formatAge } from '../../report/summary.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { readProfile } from '../plan-settings.ts';
import { readClaims } from '../token.ts';
import { askServer, wireEnforcement } from '../wire.ts';

/** What was looked at: what is well in one sentence each, and what is not. */
type Findings = readonly (string | Problem)[];

const day = 86_400_000;

/** `reconcile doctor`: connection, certificate, clock, token, stored state; each finding with its fix. Never writes. */
export async function run(invocation: Invocation): Promise<Answer> {
  const examination = await examineServer(invocation);
  const { well, problems } = examination;
  return {
    exit: chooseExitCode({ failed: hasErrors(problems) }),
    result: problems.find(({ severity }) => severity === 'error')?.summary ?? 'well',
    text: ({ color }) => renderExamination(examination, color),
    document: () => renderDocument({ healthy: !hasErrors(problems), well }, problems),
  };
}

export async function examineServer(invocation: Invocation) {
  const found = await askServer(invocation, async (context, _must, { token, explain }): Promise<Findings> => {
    const connection = await examineConnection(new URL(invocation.settings.baseUrl ?? ''), invocation);
    const before = [...connection, examineToken(token?.read() ?? '', systemClock.wallTime())];
    const live = await readLive({ ...context, attempts: 2 }, wholeScope, null);
    if (live.ok) {
      const { rules, configuration } = live.value.live;
      return [
        ...before,
        `API: answers; ${count(rules.length, 'rule')}`,
        rules.some(({ rule }) => rule.ports !== null) ? 'port rules: supported (some are stored)' : noPortRule,
        ...rules.filter(isModifiedInPlace).map((one) => warnOfModified(one)),
        ...noteUnknownFields(live.value.live),
        ...(configuration === null ? [] : await examineConfiguration(configuration, invocation)),
        ...(await examineKernel(rules, invocation)),
      ];
    }
    const problem = explain(live.error);
    // A TLS failure was found when the connection was looked at, and is not told twice.
    const isTold = connection.some((one) => typeof one !== 'string' && one.code === problem.code);
    return isTold ? before : [...before, problem];
  });
  return {
    well: found.filter((one) => typeof one === 'string'),
    problems: found.filter((one) => typeof one !== 'string'),
  };
}

/** Whether the kernel's packet filter holds the live rules, when `--enforcement` asks for it. */
async function examineKernel(rules: readonly LiveRule[], { settings, terminal }: Invocation): Promise<Findings> {
  const { enforcement } = wireEnforcement({ ...settings, waitEnforced: null, repair: false });
  if (enforcement === undefined) return [];
  const report = await enforcement.kernel.check(rules, new Map(), terminal.stop);
  const well =
    report.state === 'enforced' ? [`kernel: holds ${count(report.liveRules, 'live rule')} and nothing else`] : [];
  // Asked whether the kernel holds the rules, a doctor that finds otherwise does not say that all is well.
  return [...well, ...listEnforcementProblems(report).map((problem): Problem => ({ ...problem, severity: 'error' }))];
}

async function examineConnection(url: URL, { settings, terminal }: Invocation): Promise<Findings> {
  const probe = { caFile: settings.caFile, signal: terminal.stop, timeoutMs: settings.timeout };
  const found =
    url.protocol === 'https:'
      ? examineCertificate(url, await readCertificate(url, probe))
      : [`address: ${url.host} by plain http, which nothing encrypts`];
  // A path that nothing answers may have no Date.
  const asked = new URL(`${url.href.replace(/\/$/, '')}/v0/rules`);
  const time = await readServerTime(asked, { ...probe, now: systemClock.now });
  if (time === null) return found;
  const off = Math.abs(time.serverTime - systemClock.wallTime());
  const alone = 'rules begin and end by the clock of this machine alone';
  if (Number.isNaN(off))
    return [...found, makeNote('clock', "clock: unknown; no answer says the server's time", alone)];
  if (off <= 60_000)
    return [...found, `clock: agrees with the server's; one request takes ${Math.round(time.tookMs)} ms`];
  const summary = `this machine's clock and the server's differ by ${formatAge(off)}`;
  const stops = 'while they differ by more than 5 minutes, no rule begins or ends (`notBefore`, `expires`)';
  const problem =
    off > mostApartMs
      ? makeError('clock', summary, `synchronise both: ${stops}`)
      : makeWarning('clock', summary, 'synchronise both: tokens and certificates are judged by the clock');
  return [...found, problem];
}

function examineCertificate({ host }: URL, certificate: Awaited<ReturnType<typeof readCertificate>>): Findings {
  // Without any connection there is nothing to say of TLS; the reading of the API says why.
  if (typeof certificate === 'string' && certificate.startsWith('no connection')) return [];
  if (typeof certificate === 'string') {
    const hint = 'correct the base URL, --ca-file or the certificate; verification cannot be turned off';
    return [makeError('api-tls', `the TLS connection to ${host} failed: ${certificate}`, hint)];
  }
  const left = certificate.validTo - systemClock.wallTime();
  if (left >= 14 * day)
    return [`TLS: the certificate of ${host} (by ${certificate.issuer}) is accepted and valid for ${formatAge(left)}`];
  return [makeWarning('certificate-expires', `the certificate of ${host} expires in ${formatAge(left)}`, 'renew it')];
}

/** What the token says about itself; whether it is accepted shows when it is used. */
function examineToken(token: string, now: number): Findings[number] {
  const claims = readClaims(token);
  if (claims === null) return 'token: not a JWT, so nothing is known of its expiry';
  if (claims.expiresAt === null) return 'token: a JWT without an expiry';
  const left = claims.expiresAt - now;
  if (left >= 14 * day)
    return `token: a JWT${claims.type === null ? '' : ` (${claims.type})`} that expires in ${formatAge(left)}`;
  const hint = 'make a new one as an administrator (30 days by default, 90 at most) and put it into the token file';
  if (left <= 0) return makeError('token-expired', `the token expired ${formatAge(-left)} ago`, hint);
  return makeWarning('token-expires', `the token expires in ${formatAge(left)}; nothing can renew it`, hint);
}

async function examineConfiguration(configuration: LiveConfiguration, { settings, terminal }: Invocation) {
  const found: (string | Problem)[] = [...diagnoseStored(configuration, readProfile(settings))];
  if (!settings.checkDiscovery) return found;
  for (const { id, discovery_document_uri: uri } of configuration.fields.openid_connect_providers) {
    const wrong = await checkDiscovery(uri, terminal.stop);
    const summary = `provider ${id}: ${uri}: ${wrong}`;
    const hint = 'mend it before the server restarts: it does not start without, and no provider can be changed';
    if (wrong === null) found.push(`provider ${id}: its discovery document is fine`);
    else found.push(makeError('discovery', summary, hint));
  }
  return found;
}

/** What is wrong with the stored Configuration, and which fields hold what the server takes from nobody. */
function diagnoseStored(configuration: LiveConfiguration, profile: Profile): readonly Problem[] {
  const found = diagnoseConfiguration(configuration);
  const poisoned = found.filter(({ code }) => code === 'poisoned-configuration');
  const { unfit } = exportConfiguration(configuration.fields, profile);
  const problems = unfit.flatMap(({ field, reason }) => {
    if (poisoned.some(({ summary }) => summary.startsWith(field))) return [];
    const summary = `${field} is stored with a value that no manifest may have: ${reason}`;
    const hint = `the server may refuse every change until it is mended: write ${field} with a fitting value in the Configuration`;
    // It checks the bounds of every number with every change.
    const isRefused = typeof configuration.fields[field] === 'number';
    return (isRefused ? makeError : makeWarning)('stored-value-unfit', summary, hint);
  });
  return [...found, ...problems];
}

/** One line for each thing that is well, then the problems. */
export function renderExamination({ well, problems }: Awaited<ReturnType<typeof examineServer>>, color: boolean) {
  const paint = createPaint(color);
  const lines = well.map((text) => `${paint('strong', 'ok')} ${text}\n`).join('');
  return `${lines}${renderProblems(problems, color)}\n${formatProblemCounts(problems)}.\n`;
}
