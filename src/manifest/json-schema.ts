import { type Kind, kinds } from './manifest.ts';
import { findSchema } from './schema.ts';

/** A JSON Schema (draft 2020-12) as a plain value. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The JSON Schema of one kind, of what people write (defaults may be left out). */
export function makeJsonSchema(kind: Kind): JsonSchema {
  return { $schema: draft, $id: `urn:firezone-reconcile:${kind}`, ...makeKindSchema(kind) };
}

const draft = 'https://json-schema.org/draft/2020-12/schema';

function makeKindSchema(kind: Kind): JsonSchema {
  return { title: `Firezone ${kind}`, ...findSchema(kind) };
}

/** The JSON Schema of any manifest, in one piece: editors choose the kind's own by its `kind`. */
export function makeManifestSchema(): JsonSchema {
  return {
    $schema: draft,
    $id: 'urn:firezone-reconcile:manifest',
    title: 'Firezone manifest',
    type: 'object',
    required: ['apiVersion', 'kind'],
    properties: { kind: { enum: [...kinds].sort(), description: 'What the manifest holds.', examples: ['RuleSet'] } },
    allOf: kinds.map((kind) => ({
      if: { properties: { kind: { const: kind } }, required: ['kind'] },
      // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
      then: { $ref: `#/$defs/${kind}` },
    })),
    $defs: Object.fromEntries(kinds.map((kind) => [kind, makeKindSchema(kind)])),
  };
}

export function printSchema(schema: JsonSchema): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}
