import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../../../src/adapters/metrics/metrics.ts';
import { conditionReasons } from '../../../src/controller/conditions.ts';
import { createStalledStatus } from '../../../src/controller/status.ts';
import { someStatus } from '../../controller/support/some-status.ts';
import { describeMetrics } from './support.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const reference = readFileSync(path.join(root, 'docs/reference/sidecar.md'), 'utf8');
const alerts = readFileSync(path.join(root, 'deploy/alerts.yaml'), 'utf8');

describe('the metrics', () => {
  it('are the ones in the table of docs/reference/sidecar.md, with type, labels and meaning', () => {
    const metrics = createMetrics('1.2.3', () => [[{}, someStatus()]]);
    const rows = describeMetrics(metrics.registry).map(
      ({ name, type, labels, help }) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
    );
    expect(rows.length).toBeGreaterThan(15);
    const table =
      reference
        .split('<!-- metrics')[1]
        ?.split('\n')
        .filter((line) => line.startsWith('| `reconcile_')) ?? [];
    expect(table.toSorted()).toEqual(rows.toSorted());
  });

  it('every reason of a condition stands in docs/reference/sidecar.md, and no other', () => {
    const reasons = reference.split('## Reasons')[1]?.split('## Metrics')[0] ?? '';
    const documented = [...reasons.matchAll(/^\| `([A-Za-z]+)` \|/gm)].map((found) => found[1]);
    expect(documented.toSorted()).toEqual(conditionReasons.toSorted());
  });

  it('alert rules name only metrics that exist', () => {
    const known = new Set(
      describeMetrics(createMetrics('1', () => [[{}, someStatus()]]).registry).map((one) => one.name),
    );
    const used = [...alerts.matchAll(/reconcile_[a-z_]+/g)].map((found) => (found[0] ?? '').replace(/_bucket$/, ''));
    expect(used.length).toBeGreaterThan(8);
    expect(used.filter((name) => !known.has(name))).toEqual([]);
  });

  it('show conditions and revisions as they are at the scrape, and forget older ones', async () => {
    let status = someStatus();
    const metrics = createMetrics('1.2.3', () => [[{}, status]]);
    const first = (await metrics.text()).text;
    expect(first).toContain('reconcile_condition{type="Ready",reason="Refused"} 0');
    expect(first).toContain(`reconcile_revision_info{kind="applied",revision="${'b'.repeat(40)}"} 1`);
    expect(first).toContain(`reconcile_revision_info{kind="in_force",revision="${'c'.repeat(40)}"} 1`);
    status = someStatus('x', {
      revisions: {
        observed: null,
        attempted: null,
        applied: 'c'.repeat(40),
        appliedAt: 5000,
        failed: [],
        stuck: null,
        inForce: null,
      },
    });
    const second = (await metrics.text()).text;
    expect(second).not.toContain('b'.repeat(40));
    expect(second).toContain('reconcile_applied_timestamp_seconds 5');
  });

  it('call no process a replica that stands by as long as its settings cannot be used', async () => {
    const metrics = createMetrics('1.2.3', () => [[{}, createStalledStatus('1.2.3', 'interval is wrong', 0)]]);
    expect((await metrics.text()).text).not.toMatch(/^reconcile_writer /m);
  });

  it('leave out what is not known, so that no alert takes it for 0', async () => {
    const unknown = someStatus('x', { tokenExpiresAt: null, lastSuccessAt: null, liveRules: null });
    let status = someStatus('x', { tokenExpiresAt: 5000, lastSuccessAt: 6000, liveRules: 7 });
    const metrics = createMetrics('1.2.3', () => [[{}, status]]);
    const samples = async () =>
      (await metrics.text()).text
        .split('\n')
        .filter((line) => /^reconcile_(token_expiry|last_success|live_rules|enforce)/.test(line));
    expect(await samples()).toEqual([
      'reconcile_last_success_timestamp_seconds 6',
      'reconcile_live_rules 7',
      'reconcile_token_expiry_timestamp_seconds 5',
    ]);
    status = unknown;
    expect(await samples()).toEqual([]);
  });
});
