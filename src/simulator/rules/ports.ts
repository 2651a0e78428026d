import { type Cast, trim } from '../cast.ts';
import { Float, type JsonTerm, ServerCrash } from '../http/json.ts';

const badFormat = { message: 'bad format' };
const reversed = { message: 'lower value cannot be higher than upper value' };

/** Casts to the text that the server keeps: leading integers count (recordings/rule_create_ports). May raise ServerCrash. */
export function castPorts(term: Exclude<JsonTerm, null>): Cast<string> {
  if (Array.isArray(term) && term.length === 2) return castPair(term[0] ?? null, term[1] ?? null);
  if (typeof term !== 'string') throw new ServerCrash('port range of this type');
  const pair = /^[[(]/.test(term) ? parseBrackets(term) : parsePlain(term);
  if (pair === undefined) return badFormat;
  const [low, high] = pair;
  if (low === high) return { value: String(low) };
  return low < high ? { value: `${low} - ${high}` } : reversed;
}

/** `80`, `80-90`: split at the first run of hyphens that leaves two parts; each part's leading integer counts. */
function parsePlain(text: string): readonly [bigint, bigint] | undefined {
  const parts = splitTwice(trim(text));
  const numbers = parts.map((part) => /^[+-]?[0-9]+/.exec(trim(part))?.[0]);
  const [low, high] = numbers;
  if (low === undefined || numbers.includes(undefined)) return undefined;
  return [BigInt(low.replace('+', '')), BigInt((high ?? low).replace('+', ''))];
}

/** Splits at one hyphen, skipping empty parts in front: `-80` is `80`, `80--90` is `80` and `-90`. */
function splitTwice(text: string): string[] {
  const rest = text.replace(/^-+/, '');
  const hyphen = rest.indexOf('-');
  return (hyphen < 0 ? [rest] : [rest.slice(0, hyphen), rest.slice(hyphen + 1)]).filter((part) => part !== '');
}

/** The database's own notation: `[80,90)`. */
function parseBrackets(text: string): readonly [bigint, bigint] | undefined {
  const match = /([[|(])\s*([0-9]+),\s*([0-9]+)\s*([\]|)])/.exec(text);
  if (match === null) return undefined;
  const [, open, low = '0', high = '0', close] = match;
  return [BigInt(low) + (open === '(' ? 1n : 0n), BigInt(high) - (close === ')' ? 1n : 0n)];
}

/** A JSON pair is compared as the runtime orders terms: numbers before other values, texts last, by their bytes. */
function castPair(low: JsonTerm, high: JsonTerm): Cast<string> {
  if (isNumber(low) && isNumber(high) && spell(low) === spell(high)) {
    if (low instanceof Float) throw new ServerCrash('a float is no port');
    return { value: spell(low) };
  }
  return compareTerms(low, high) > 0 ? reversed : { value: `${spell(low)} - ${spell(high)}` };
}

const isNumber = (term: JsonTerm): term is number | bigint | Float =>
  typeof term === 'number' || typeof term === 'bigint' || term instanceof Float;
const sizeOf = (term: number | bigint | Float): number | bigint => (term instanceof Float ? term.value : term);

function compareTerms(low: JsonTerm, high: JsonTerm): number {
  if (isNumber(low) && isNumber(high)) return sizeOf(low) < sizeOf(high) ? -1 : Number(sizeOf(low) > sizeOf(high));
  if (typeof low === 'string' && typeof high === 'string') return Buffer.compare(Buffer.from(low), Buffer.from(high));
  return rank(low) - rank(high);
}

function rank(term: JsonTerm): number {
  if (isNumber(term)) return 0;
  if (term === null || typeof term === 'boolean') return 1;
  return typeof term === 'string' ? 4 : Array.isArray(term) ? 3 : 2;
}

function spell(term: JsonTerm): string {
  if (term === null) return '';
  if (term instanceof Float) return Number.isInteger(term.value) ? term.value.toFixed(1) : String(term.value);
  if (typeof term === 'object') throw new ServerCrash('no text for this value');
  return String(term);
}

export type StoredPortRange = Readonly<Record<'low' | 'high', number>>;

const int32 = 2_147_483_647n;

/** What the database holds; undefined: refused by its check, for which 65535 is already outside. May raise ServerCrash. */
export function storePorts(text: string): StoredPortRange | undefined {
  const pair = parsePlain(text);
  if (pair === undefined) throw new ServerCrash('no range');
  const [low, high] = pair;
  if (low > high || low < -int32 - 1n || high >= int32) throw new ServerCrash('range does not fit');
  return low >= 1n && high <= 65_534n ? { low: Number(low), high: Number(high) } : undefined;
}

export function formatPorts(range: StoredPortRange): string {
  return range.low === range.high ? String(range.low) : `${range.low} - ${range.high}`;
}
