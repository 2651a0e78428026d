import { checkEnforcement } from '../../enforcement/check.ts';
import { type Enforcement, reportUnreadable } from '../../enforcement/report.ts';
import { decodeTable, type FilterTable } from '../../enforcement/table.ts';
import { decodeJson, fail, ok, type Result } from '../../model/result.ts';
import { type ProcessRun, runProcess } from '../run-process.ts';

/** Of a kernel without the table, or with one that is switched off: nothing is filtered. */
const missing: FilterTable = { sets: new Map(), chains: new Map(), unknown: [], dormant: false };

/** Checks the nftables of a network namespace with the `nft` program. Only reads. */
export function createNftEnforcement(options: NftOptions): Enforcement {
  return {
    async check(live, names, signal) {
      const result = await runNft(options, 'json', signal);
      if (!result.ok) return reportUnreadable(result.error, live.length);
      if (result.value === null) return checkEnforcement(live, names, missing);
      const table = decodeTable(decodeJson(result.value));
      const unsure = !table.ok || /"table": \{[^}]*"flags"/.test(result.value);
      if (unsure && (await isDormant(options, signal)))
        return checkEnforcement(live, names, { ...missing, dormant: true });
      return table.ok ? checkEnforcement(live, names, table.value) : reportUnreadable(table.error, live.length);
    },
  };
}

/** nft 1.0.6 (Debian 12) prints freed memory as a table's flags, and may end the JSON there: then its text form is asked. */
async function isDormant(options: NftOptions, signal: AbortSignal): Promise<boolean> {
  const result = await runNft(options, 'text', signal);
  return result.ok && /^\s*flags [^\n]*\bdormant\b/m.test(result.value ?? '');
}

/** What nft printed; null: the table does not exist. The error says why it could not be asked, for a person. */
type NftResult = Result<string | null, string>;

interface NftOptions {
  /** Path of a network namespace (`/run/netns/NAME`, `/proc/PID/ns/net`); null: the namespace of this process. */
  readonly netns: string | null;
  readonly timeoutMs: number;
}

const table = ['list', 'table', 'inet', 'firezone'];
/** The whole table as JSON, or its head as a person writes it (`-t`: without elements). */
const forms = { json: ['nft', '-j', ...table], text: ['nft', '-t', ...table] };
const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/** Runs `nft list table inet firezone`, which only reads; no shell, an environment of its own, a deadline. */
async function runNft(options: NftOptions, form: keyof typeof forms, signal: AbortSignal): Promise<NftResult> {
  const { netns, timeoutMs } = options;
  const [program, ...args] = netns === null ? forms[form] : ['nsenter', `--net=${netns}`, '--', ...forms[form]];
  const bounds = { timeoutMs, maxOutput: 512 * 1024 * 1024, signal };
  const run = await runProcess({ program: program ?? 'nft', args, cwd: process.cwd(), env: environment, ...bounds });
  if (run.end === 'exit' && run.code === 0) return ok(run.stdout.toString('utf8'));
  return explainFailure(run, options);
}

function explainFailure({ end, code, stderr: said }: ProcessRun, { netns, timeoutMs }: NftOptions): NftResult {
  if (end === 'aborted') return fail('the check of the kernel was stopped');
  if (end === 'timeout') return fail(`nft did not answer within ${timeoutMs / 1000} s`);
  if (end === 'not-started') {
    const missing = netns === null ? 'nft (package nftables)' : 'nsenter (package util-linux)';
    return fail(`${missing} is not installed here; install it, or leave --enforcement out`);
  }
  if (said.startsWith('nsenter: failed to execute'))
    return fail('nft is not installed here; install the package nftables');
  if (said.startsWith('nsenter:')) {
    const needs = ': that needs CAP_SYS_ADMIN beside CAP_NET_ADMIN';
    const why = /permitted|denied/.test(said) ? needs : ` (${said}); check --netns`;
    return fail(`the network namespace ${netns} cannot be entered${why}`);
  }
  if (/Operation not permitted|Permission denied/.test(said)) {
    return fail('nft may not read the packet filter: it needs CAP_NET_ADMIN in the network namespace of the server');
  }
  if (/No such file or directory/.test(said)) return ok(null);
  return fail(`nft failed (${said === '' ? `exit ${String(code ?? end)}` : said})`);
}
