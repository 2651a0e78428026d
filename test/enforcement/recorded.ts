import { readFileSync } from 'node:fs';
import { decodeTable, type FilterTable } from '../../src/enforcement/table.ts';
import { decodeLiveRules } from '../../src/live/live-rules.ts';
import type { LiveRule } from '../../src/model/rule.ts';

type Item = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** One recorded dump: what the API listed, and the items of `nft -j list table inet firezone` beside it. */
export interface Recorded {
  readonly live: readonly LiveRule[];
  readonly items: readonly Item[];
}

interface Recording {
  readonly step: string;
  readonly observation: { readonly rules: unknown; readonly nft_json: { readonly nftables: readonly Item[] } };
}

const file = new URL('recordings/nft_table.json', import.meta.url);
const recordings = JSON.parse(readFileSync(file, 'utf8')) as readonly Recording[];

/** The recorded dump of that step. */
export function recorded(step: string): Recorded {
  const found = recordings.find((recording) => recording.step === step);
  if (found === undefined) throw new Error(`no recorded step ${step}`);
  const rules = decodeLiveRules({ data: found.observation.rules });
  if (!rules.ok) throw new Error(rules.error);
  return { live: rules.value, items: found.observation.nft_json.nftables };
}

/** Decodes items of a table. */
export function tableOf(items: readonly unknown[]): FilterTable {
  const table = decodeTable({ nftables: items });
  if (!table.ok) throw new Error(table.error);
  return table.value;
}
