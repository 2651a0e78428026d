import { checkEnforcement, tableMissing } from '../../enforcement/check.ts';
import { decodeTable } from '../../enforcement/decode.ts';
import type { Enforcement } from '../../enforcement/report.ts';
import { unreadable } from '../../enforcement/report.ts';
import { type NftOptions, runNft } from './run-nft.ts';

/** Checks the nftables of a network namespace with the `nft` program. Only reads. */
export function nftEnforcement(options: NftOptions): Enforcement {
  return {
    async check(live, names, signal) {
      const result = await runNft(options, 'json', signal);
      if (result.kind === 'failed') return unreadable(result.message, live.length);
      if (result.kind === 'no-table') return tableMissing(live, names);
      const table = decodeTable(parseJson(result.text));
      const unsure = !table.ok || /"table": \{[^}]*"flags"/.test(result.text);
      if (unsure && (await isDormant(options, signal))) return tableMissing(live, names, true);
      return table.ok ? checkEnforcement({ live, names, table: table.value }) : unreadable(table.error, live.length);
    },
  };
}

/**
 * nft 1.0.6 (Debian 12) prints freed memory as the flags of a table, and the JSON may end there. Its text form is right, so it
 * is asked for where the JSON shows flags or cannot be read.
 */
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
