import { checkEnforcement, reportMissingTable } from '../../enforcement/check.ts';
import { decodeTable } from '../../enforcement/decode.ts';
import type { Enforcement } from '../../enforcement/report.ts';
import { reportUnreadable } from '../../enforcement/report.ts';
import { type NftOptions, runNft } from './run-nft.ts';

/** Checks the nftables of a network namespace with the `nft` program. Only reads. */
export function createNftEnforcement(options: NftOptions): Enforcement {
  return {
    async check(live, names, signal) {
      const result = await runNft(options, 'json', signal);
      if (result.kind === 'failed') return reportUnreadable(result.message, live.length);
      if (result.kind === 'no-table') return reportMissingTable(live, names);
      const table = decodeTable(parseJson(result.text));
      const unsure = !table.ok || /"table": \{[^}]*"flags"/.test(result.text);
      if (unsure && (await isDormant(options, signal))) return reportMissingTable(live, names, true);
      return table.ok
        ? checkEnforcement({ live, names, table: table.value })
        : reportUnreadable(table.error, live.length);
    },
  };
}

/** nft 1.0.6 (Debian 12) prints freed memory as a table's flags, and may end the JSON there: then its text form is asked. */
async function isDormant(options: NftOptions, signal: AbortSignal): Promise<boolean> {
  const result = await runNft(options, 'text', signal);
  return result.kind === 'output' && /^\s*flags [^\n]*\bdormant\b/m.test(result.text);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
