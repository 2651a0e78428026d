import { Counter, Histogram, type Registry } from 'prom-client';

/** Every metric of our own: name, kind, labels, help. */
export function describeMetrics(registry: Registry) {
  return registry.getMetricsAsArray().flatMap((metric: object) => {
    const { name, help, labelNames } = metric as { name: string; help: string; labelNames: readonly string[] };
    if (!name.startsWith('reconcile_')) return [];
    const type = metric instanceof Histogram ? 'histogram' : metric instanceof Counter ? 'counter' : 'gauge';
    return [{ name, type, labels: labelNames, help }];
  });
}
