import { z } from 'zod';
import { makeFleetSchema } from '../src/cli/settings-file.ts';
import { settingsSchema } from '../src/cli/settings-schema.ts';
import { makeJsonSchema, makeManifestSchema } from '../src/manifest/json-schema.ts';
import { kinds } from '../src/manifest/manifest.ts';
import { isObject } from '../src/model/result.ts';
import { planSchema } from './plan-schema.ts';
import { statusSchema } from './status-schema.ts';

/** Every JSON Schema of the project: file name below schemas/ to text. */
export function allSchemaFiles(): ReadonlyMap<string, string> {
  return new Map([
    ...kinds.map((kind): [string, string] => [`${kind}.json`, text(makeJsonSchema(kind))]),
    ['manifest.json', text(makeManifestSchema())],
    ['settings.schema.json', text(splitTypes(z.toJSONSchema(settingsSchema, { io: 'input' })))],
    ['fleet.schema.json', text(makeFleetSchema())],
    ['plan.schema.json', text(planSchema)],
    ['status.schema.json', text(statusSchema)],
  ]);
}

function text(schema: unknown): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** The schema with a choice where it lists types: strict validators refuse such a list, but for a type and `null`. */
function splitTypes(schema: object): Record<string, unknown> {
  const members = Object.entries(schema).flatMap(([key, value]: [string, unknown]): readonly [string, unknown][] => {
    const isChoice = key === 'type' && Array.isArray(value) && !(value.length === 2 && value.includes('null'));
    if (isChoice) return [['anyOf', value.map((type: unknown) => ({ type }))]];
    if (Array.isArray(value)) return [[key, value.map((one: unknown) => (isObject(one) ? splitTypes(one) : one))]];
    return [[key, isObject(value) ? splitTypes(value) : value]];
  });
  return Object.fromEntries(members);
}

/** `deploy/kubernetes/monitoring/prometheus-rule.yaml`, from the text of `deploy/alerts.yaml`. */
export function prometheusRule(alerts: string): string {
  const [comment = '', groups = ''] = alerts.split(/^(?=groups:)/m);
  const head =
    'apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: firezone-reconcile\nspec:\n';
  return `${comment}# Written by \`npm run schemas\` from deploy/alerts.yaml.\n${head}${groups.replace(/^(?=.)/gm, '  ')}`;
}
