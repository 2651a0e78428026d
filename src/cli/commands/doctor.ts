import { checkDiscovery, readCertificate, readServerTime } from '../../adapters/api/probe.ts';
import { systemClock } from '../../adapters/clock.ts';
import { defaultApplyLimits } from '../../apply/context.ts';
import { readLive } from '../../apply/read.ts';
import { exportConfiguration } from '../../desired/export-configuration.ts';
import { listEnforcementProblems } from '../../enforcement/problems.ts';
import { diagnoseConfiguration, diagnoseRules } from '../../live/diagnose.ts';
import type { LiveConfiguration } from '../../model/configuration.ts';
import { hasErrors, type Problem } from '../../model/problem.ts';
import type { Profile } from '../../model/profile.ts';
import { type LiveState, wholeScope } from '../../model/state.ts';
import { mostApartMs } from '../../pass/clock.ts';
import { renderDocument } from '../../report/json.ts';

import { createPaint } from '../../report/paint.ts';
import { formatProblemCounts, renderProblems } from '../../report/problems.ts';
import { count, formatAge } from '../../report/summary.ts';
import type { Answer, Invocation } from '../command.ts';
import { chooseExitCode } from '../exit-code.ts';
import { createLogger } from '../logger.ts';
import { readProfile } from '../plan-settings.ts';
import { explainReadFailure } from '../read-failure.ts';
import { readClaims, type TokenSource } from '../token.ts';
import { createEnforcement, wireApi } from '../wire.ts';

/** What was looked at: what is well in one sentence each, and what is not as problems. */
export interface Examination {
  readonly well: readonly string[];
  readonly problems: readonly Problem[];
}

const day = 86_400_000;

/** `reconcile doctor`: connection, certificate, clock, token, stored state; each finding with its fix. Never writes. */
export async function run(invocation: Invocation): Promise<Answer> {
  const examination = await examineServer(invocation);
  return {
    exit: chooseExitCode({ failed: hasErrors(examination.problems) }),
    text: ({ color }) => renderExamination(examination, color),
    document: () => jsonOf(examination),
  };
}

/** Looks at the connection, the token and what is stored. */
export async function examineServer(invocation: Invocation): Promise<Examination> {
  const { api, token } = wireApi(invocation);
  try {
    return await examine(invocation, api, token);
  } finally {
    await api.close();
  }
}

async function examine(
  invocation: Invocation,
  api: ReturnType<typeof wireApi>['api'],
  token: TokenSource,
): Promise<Examination> {
  const { settings, terminal } = invocation;
  const url = new URL(settings.baseUrl ?? '');
  const connection = await examineConnection(url, invocation);
  const parts: Examination[] = [connection, examineToken(token.read(), systemClock.wallTime())];
  const context = {
    api,
    clock: systemClock,
    logger: await createLogger(invocation),
    attempts: Math.min(2, defaultApplyLimits.attempts),
    signal: terminal.stop,
  };
  const live = await readLive(context, wholeScope, null);
  if (live.ok) parts.push(await examineState(live.value.live, invocation));
  if (live.ok) parts.push(await examineKernel(live.value.live, invocation));
  else {
    const problem = explainReadFailure(live.error, token.read, systemClock.wallTime());
    // A TLS failure was found when the connection was looked at, and is not told twice.
    const isKnown = connection.problems.some(({ code }) => code === 'api-tls' && problem.code === code);
    parts.push({ well: [], problems: isKnown ? [] : [problem] });
  }
  return { well: parts.flatMap(({ well }) => well), problems: parts.flatMap(({ problems }) => problems) };
}

/** Whether the kernel's packet filter holds the live rules, when `--enforcement` asks for it. */
async function examineKernel(live: LiveState, { settings, terminal }: Invocation): Promise<Examination> {
  const { enforcement } = createEnforcement({ ...settings, waitEnforced: null, repair: false });
  if (enforcement === undefined) return { well: [], problems: [] };
  const report = await enforcement.kernel.check(live.rules, new Map(), terminal.stop);
  const well =
    report.state === 'enforced' ? [`kernel: holds ${count(report.liveRules, 'live rule')} and nothing else`] : [];
  // Asked whether the kernel holds the rules, a doctor that finds otherwise does not say that all is well.
  const problems = listEnforcementProblems(report).map((problem): Problem => ({ ...problem, severity: 'error' }));
  return { well, problems };
}

async function examineConnection(url: URL, { settings, terminal }: Invocation): Promise<Examination> {
  const well: string[] = [];
  const problems: Problem[] = [];
  const probe = { caFile: settings.caFile, signal: terminal.stop, timeoutMs: settings.timeout };
  if (url.protocol === 'https:') {
    const certificate = await readCertificate(url, probe);
    // Without any connection there is nothing to say of TLS; the reading of the API says why.
    if (typeof certificate === 'string' && !certificate.startsWith('no connection')) {
      problems.push({
        code: 'api-tls',
        severity: 'error',
        summary: `the TLS connection to ${url.host} failed: ${certificate}`,
        hint: 'the reason says what to mend: the base URL, --ca-file, or the certificate; verification cannot be turned off',
      });
    } else if (typeof certificate !== 'string') {
      const left = certificate.validTo - systemClock.wallTime();
      if (left < 14 * day)
        problems.push({
          code: 'certificate-expires',
          severity: 'warning',
          summary: `the certificate of ${url.host} expires in ${formatAge(left)}`,
          hint: 'renew it',
        });
      else
        well.push(
          `TLS: the certificate of ${url.host} (by ${certificate.issuer}) is accepted and valid for ${formatAge(left)}`,
        );
    }
  } else well.push(`address: ${url.host} by plain http, which nothing encrypts`);
  const time = await readServerTime(url, { ...probe, now: systemClock.now });
  if (time !== null) {
    const off = Math.abs(time.serverTime - systemClock.wallTime());
    const isApart = off > mostApartMs;
    if (off > 60_000)
      problems.push({
        code: 'clock',
        severity: isApart ? 'error' : 'warning',
        summary: `this machine's clock and the server's differ by ${formatAge(off)}`,
        hint: isApart
          ? 'synchronise both: while they differ by more than 5 minutes, no rule begins or ends (`notBefore`, `expires`)'
          : 'synchronise both: tokens and certificates are judged by the clock',
      });
    else well.push(`clock: agrees with the server's; one request takes ${Math.round(time.tookMs)} ms`);
  }
  return { well, problems };
}

/** What the token says about itself; whether it is accepted shows when it is used. */
export function examineToken(token: string, now: number): Examination {
  const claims = readClaims(token);
  if (claims === null) return { well: ['token: not a JWT, so nothing is known of its expiry'], problems: [] };
  if (claims.expiresAt === null) return { well: ['token: a JWT without an expiry'], problems: [] };
  const left = claims.expiresAt - now;
  const hint = 'make a new one as an administrator (30 days by default, 90 at most) and put it into the token file';
  if (left <= 0)
    return {
      well: [],
      problems: [
        { code: 'token-expired', severity: 'error', summary: `the token expired ${formatAge(-left)} ago`, hint },
      ],
    };
  if (left < 14 * day)
    return {
      well: [],
      problems: [
        {
          code: 'token-expires',
          severity: 'warning',
          summary: `the token expires in ${formatAge(left)}; nothing can renew it`,
          hint,
        },
      ],
    };
  return {
    well: [`token: a JWT${claims.type === null ? '' : ` (${claims.type})`} that expires in ${formatAge(left)}`],
    problems: [],
  };
}

async function examineState(live: LiveState, { settings, terminal }: Invocation): Promise<Examination> {
  const { rules, configuration } = live;
  const well = [`API: answers; ${count(rules.length, 'rule')}`];
  if (rules.some((rule) => rule.rule.ports !== null)) well.push('port rules: supported (some are stored)');
  const problems = [
    ...diagnoseRules(rules),
    ...(configuration === null ? [] : examineConfiguration(configuration, readProfile(settings))),
  ];
  if (settings.checkDiscovery && configuration !== null) {
    for (const { id, discovery_document_uri: uri } of configuration.fields.openid_connect_providers) {
      const wrong = await checkDiscovery(uri, terminal.stop);
      if (wrong === null) well.push(`provider ${id}: its discovery document is fine`);
      else
        problems.push({
          code: 'discovery',
          severity: 'error',
          summary: `provider ${id}: ${uri}: ${wrong}`,
          hint: 'mend it before the server restarts: it does not boot without; changing the providers fails too until it answers',
        });
    }
  }
  return { well, problems };
}

/** What is wrong with the stored Configuration, and which fields hold what the server takes from nobody. */
function examineConfiguration(configuration: LiveConfiguration, profile: Profile): readonly Problem[] {
  const found = diagnoseConfiguration(configuration);
  const unfit = exportConfiguration(configuration.fields, profile).unfit.filter(
    ({ field }) => !found.some(({ code, summary }) => storedCodes.has(code) && summary.startsWith(field)),
  );
  return [
    ...found,
    ...unfit.map(
      ({ field, reason }): Problem => ({
        code: 'stored-value-unfit',
        severity: 'warning',
        summary: `${field} is stored with a value that no manifest may have: ${reason}`,
        hint: `the server may refuse every change until it is mended: write ${field} with a fitting value in the Configuration`,
      }),
    ),
  ];
}

const storedCodes: ReadonlySet<string> = new Set(['poisoned-configuration', 'stored-value-refused']);

/** One line for each thing that is well, then the problems. */
export function renderExamination({ well, problems }: Examination, color: boolean): string {
  const paint = createPaint(color);
  const lines = well.map((text) => `${paint('good', 'ok')} ${text}\n`).join('');
  return `${lines}${renderProblems(problems, color)}\n${formatProblemCounts(problems)}.\n`;
}

function jsonOf({ well, problems }: Examination): string {
  return renderDocument({ healthy: !hasErrors(problems), well }, problems);
}
