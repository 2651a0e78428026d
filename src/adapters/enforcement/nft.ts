import { checkEnforcement, tableMissing } from '../../enforcement/check.ts';
import { decodeTable } from '../../enforcement/decode.ts';
import { unreadable } from '../../enforcement/report.ts';
import type { Enforcement } from '../../ports.ts';
import { type NftOptions, runNft } from './run-nft.ts';

/** Checks the nftables of a network namespace with the `nft` program. Only reads. */
export function nftEnforcement(options: NftOptions): Enforcement {
  return {
    async check(live, names, signal) {
      const result = await runNft(options, signal);
      if (result.kind === 'failed') return unreadable(result.message, live.length);
      if (result.kind === 'no-table') return tableMissing(live, names);
      const table = decodeTable(parseJson(result.text));
      return table.ok ? checkEnforcement({ live, names, table: table.value }) : unreadable(table.error, live.length);
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
