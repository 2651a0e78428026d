import { z } from 'zod';
import { makeFleetSchema } from '../src/cli/settings-file.ts';
import { settingsSchema } from '../src/cli/settings-schema.ts';
import { makeSchemaFiles, splitTypes } from '../src/manifest/json-schema.ts';
import { planSchema } from './plan-schema.ts';
import { statusSchema } from './status-schema.ts';

/** Every JSON Schema of the project: file name below schemas/ to text. */
export function allSchemaFiles(): ReadonlyMap<string, string> {
  return new Map([
    ...makeSchemaFiles(),
    ['settings.schema.json', text(splitTypes(z.toJSONSchema(settingsSchema, { io: 'input' })))],
    ['fleet.schema.json', text(splitTypes(makeFleetSchema()))],
    ['plan.schema.json', text(planSchema)],
    ['status.schema.json', text(statusSchema)],
  ]);
}

function text(schema: unknown): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** `deploy/kubernetes/monitoring/prometheus-rule.yaml`, from the text of `deploy/alerts.yaml`. */
export function prometheusRule(alerts: string): string {
  const [comment = '', groups = ''] = alerts.split(/^(?=groups:)/m);
  const head =
    'apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: firezone-reconcile\nspec:\n';
  return `${comment}# Written by \`npm run schemas\` from deploy/alerts.yaml.\n${head}${groups.replace(/^(?=.)/gm, '  ')}`;
}
