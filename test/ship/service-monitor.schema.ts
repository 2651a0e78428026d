/** A duration of Prometheus: `30s`, `1m30s`, `0`. */
const duration = {
  type: 'string',
  pattern: '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$',
  minLength: 1,
};

const strict = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

const secretKey = strict(
  { name: { type: 'string', minLength: 1 }, key: { type: 'string', minLength: 1 }, optional: { type: 'boolean' } },
  ['name', 'key'],
);

/**
 * `monitoring.coreos.com/v1` ServiceMonitor, as far as one could be used here: the fields whose shape is plain from the CRD of
 * Prometheus operator 0.84, and no other. Stricter than the CRD, which drops unknown fields silently.
 */
export const serviceMonitorSchema = strict(
  {
    apiVersion: { const: 'monitoring.coreos.com/v1' },
    kind: { const: 'ServiceMonitor' },
    metadata: {
      type: 'object',
      properties: {
        name: { type: 'string', pattern: '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$' },
        namespace: { type: 'string' },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
        annotations: { type: 'object', additionalProperties: { type: 'string' } },
      },
      required: ['name'],
      additionalProperties: false,
    },
    spec: strict(
      {
        jobLabel: { type: 'string' },
        selector: strict({
          matchLabels: { type: 'object', additionalProperties: { type: 'string' } },
          matchExpressions: {
            type: 'array',
            items: strict(
              {
                key: { type: 'string' },
                operator: { enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] },
                values: { type: 'array', items: { type: 'string' } },
              },
              ['key', 'operator'],
            ),
          },
        }),
        namespaceSelector: strict({
          any: { type: 'boolean' },
          matchNames: { type: 'array', items: { type: 'string' } },
        }),
        endpoints: {
          type: 'array',
          minItems: 1,
          items: strict({
            port: { type: 'string' },
            targetPort: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
            path: { type: 'string', pattern: '^/' },
            scheme: { enum: ['http', 'https'] },
            interval: duration,
            scrapeTimeout: duration,
            honorLabels: { type: 'boolean' },
            authorization: strict({ type: { type: 'string', not: { const: 'Basic' } }, credentials: secretKey }),
          }),
        },
      },
      ['selector', 'endpoints'],
    ),
  },
  ['apiVersion', 'kind', 'metadata', 'spec'],
);
