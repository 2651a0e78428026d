import { makeJsonSchema, makeManifestSchema, printSchema } from '../../manifest/json-schema.ts';
import { kinds } from '../../manifest/manifest.ts';
import { didYouMean } from '../../manifest/suggest.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { makeFailure } from '../failure.ts';

/** `reconcile schema [KIND]`: the JSON Schema of a kind of manifest; without KIND the one that chooses by `kind`. */
export async function run({ operands }: Invocation): Promise<Answer> {
  const [written] = operands;
  const kind = kinds.find((one) => one.toLowerCase() === written?.toLowerCase());
  if (written !== undefined && kind === undefined) {
    const hint = didYouMean(written, kinds, `the kinds are ${kinds.join(', ')}`);
    throw makeFailure('usage', `there is no kind ${written}`, hint);
  }
  const schema = kind === undefined ? makeManifestSchema() : makeJsonSchema(kind);
  return { exit: exitCodes.ok, text: () => printSchema(schema) };
}
