import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createMetrics } from '../../src/adapters/metrics/metrics.ts';
import { describeMetrics } from '../adapters/metrics/support.ts';

const deploy = path.resolve(import.meta.dirname, '../../deploy');
const text = readFileSync(path.join(deploy, 'grafana/dashboard.json'), 'utf8');

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly datasource: { readonly uid: string };
    readonly targets: readonly {
      readonly expr: string;
      readonly legendFormat: string;
      readonly datasource: { readonly uid: string };
    }[];
  }[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly type: string }[] };
}

const { panels, templating } = JSON.parse(text) as Dashboard;
const queries = panels.flatMap(({ targets }) => targets);
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
const why = hasPromtool ? '' : ' (skipped: no promtool; it is in the package prometheus)';

/** What is wrong with a query, by the metrics that a sidecar exports. */
function faultsOf({ expr, legendFormat }: (typeof queries)[number]): readonly string[] {
  const known = describeMetrics(createMetrics('1', () => [], ['target']).registry);
  const used = [...expr.matchAll(/\breconcile_\w+/g)].map(([name]) => name.replace(/_(?:bucket|sum|count)$/, ''));
  const metrics = known.filter(({ name }) => used.includes(name));
  // Prometheus itself adds the three of the scrape, and a histogram has `le`.
  const labels = new Set(['namespace', 'job', 'instance', 'le', ...metrics.flatMap((one) => one.labels)]);
  const named = [
    ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', ')),
    ...[...expr.matchAll(/[{,](\w+)=/g)].map(([, label = '']) => label),
    ...[...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label),
  ];
  return [
    ...used.filter((name) => !metrics.some((one) => one.name === name)),
    ...named.filter((label) => !labels.has(label)),
    ...(used.length === 0 ? ['no metric'] : []),
  ];
}

describe('the Grafana dashboard', () => {
  it('asks the data source that is chosen, and no other', () => {
    expect(templating.list.find(({ type }) => type === 'datasource')?.name).toBe('datasource');
    const sources = [...panels, ...queries].map(({ datasource }) => datasource.uid);
    expect([...new Set(sources)]).toEqual([`$${'{datasource}'}`]);
  });

  it('names metrics and labels that a sidecar exports', async () => {
    expect(queries.length).toBeGreaterThan(15);
    for (const query of queries) expect([query.expr, faultsOf(query)]).toEqual([query.expr, []]);
    const [query] = queries;
    if (query === undefined) throw new Error('no query');
    expect(faultsOf({ ...query, expr: 'sum by (colour) (reconcile_nothing{job="x"})' })).toEqual([
      'reconcile_nothing',
      'colour',
      'reason',
    ]);
  });

  it('shows health, drift, passes, writes, exposure, expiry, latency and the lag of the filter', () => {
    const all = queries.map(({ expr }) => expr).join(' ');
    for (const metric of [
      'condition',
      'drift_objects',
      'passes_total',
      'steps_total',
      'gap_duration',
      'token_expiry',
      'api_request_duration',
      'enforcement_lag',
    ])
      expect(all).toContain(`reconcile_${metric}`);
  });

  it('is mounted by the compose file from where it is', () => {
    const { services } = parse(readFileSync(path.join(deploy, 'compose/grafana.yaml'), 'utf8')) as {
      services: { grafana: { image: string; volumes: readonly string[]; ports: readonly string[] } };
    };
    const files = services.grafana.volumes.filter((volume) => volume.startsWith('../'));
    expect(files.map((volume) => existsSync(path.join(deploy, 'compose', volume.split(':')[0] ?? '')))).toEqual([
      true,
      true,
      true,
    ]);
    const provider = parse(readFileSync(path.join(deploy, 'grafana/provisioning.yaml'), 'utf8')) as {
      providers: readonly { options: { path: string } }[];
    };
    expect(files.some((volume) => volume.includes(`:${provider.providers[0]?.options.path}/`))).toBe(true);
    expect(services.grafana.ports).toEqual(['127.0.0.1:3000:3000']);
    // Nobody here can vouch for a digest: whoever runs it has to name one.
    expect(services.grafana.image).toMatch(/^\$\{GRAFANA_IMAGE:\?.*@sha256:/);
  });

  it.skipIf(!hasPromtool)(`shows how long the worst target of a fleet has been without success${why}`, () => {
    const series = (instance: string, target: string, values: string) => ({
      series: `reconcile_last_success_timestamp_seconds{job="f",instance="${instance}",target="${target}"}`,
      values,
    });
    const { expr = '' } = panels.find(({ title }) => title === 'Since the last success')?.targets[0] ?? {};
    const test = {
      interval: '1m',
      // The replica `b` stands by, and wrote once.
      input_series: [series('a', 'good', '0+60x20'), series('a', 'bad', '300x20'), series('b', 'good', '60x20')],
      promql_expr_test: [
        { expr: expr.replace('$job', 'f'), eval_time: '20m', exp_samples: [{ labels: '{}', value: 900 }] },
      ],
    };
    const folder = mkdtempSync(path.join(tmpdir(), 'dashboard-'));
    try {
      writeFileSync(path.join(folder, 'cases.yaml'), JSON.stringify({ evaluation_interval: '1m', tests: [test] }));
      const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'cases.yaml'], {
        cwd: folder,
        encoding: 'utf8',
      });
      expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.skipIf(!hasPromtool)(`has queries that Prometheus can read${why}`, () => {
    const check = (expressions: readonly string[]): number | null => {
      const folder = mkdtempSync(path.join(tmpdir(), 'dashboard-'));
      try {
        const rules = expressions.map((expr, index) => ({
          record: `q${index}`,
          expr: expr.replaceAll('$__rate_interval', '5m'),
        }));
        writeFileSync(path.join(folder, 'rules.yaml'), JSON.stringify({ groups: [{ name: 'q', rules }] }));
        return spawnSync('promtool', ['check', 'rules', 'rules.yaml'], { cwd: folder }).status;
      } finally {
        rmSync(folder, { recursive: true });
      }
    };
    expect(check(queries.map(({ expr }) => expr))).toBe(0);
    expect(check(['sum by (x) (reconcile_fights'])).not.toBe(0);
  });
});
