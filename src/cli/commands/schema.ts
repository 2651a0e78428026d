import { makeJsonSchema, makeManifestSchema, printSchema } from '../../manifest/json-schema.ts';
import { kinds } from '../../manifest/manifest.ts';
import { didYouMean } from '../../manifest/suggest.ts';
import { type Answer, type Invocation, makeFailure } from '../command.ts';

/** `reconcile schema [KIND]`: the JSON Schema of a kind of manifest, or of `fleet`; without KIND the one that chooses by `kind`. */
export async function run({ operands }: Invocation): Promise<Answer> {
  const [written] = operands;
  if (written?.toLowerCase() === 'fleet') {
    const { makeFleetSchema } = await import('../settings-file.ts');
    return { text: () => printSchema({ ...makeFleetSchema() }) };
  }
  const kind = kinds.find((one) => one.toLowerCase() === written?.toLowerCase());
  if (written !== undefined && kind === undefined) {
    const hint = didYouMean(written, kinds, `the kinds are ${kinds.join(', ')}, and fleet`);
    throw makeFailure('usage', `there is no kind ${written}`, hint);
  }
  return { text: () => printSchema(kind === undefined ? makeManifestSchema() : makeJsonSchema(kind)) };
}
