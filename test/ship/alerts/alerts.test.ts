import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const rules = path.resolve(import.meta.dirname, '../../../deploy/alerts.yaml');
const cases = path.join(import.meta.dirname, 'cases.yaml');
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
const why = hasPromtool ? '' : ' (skipped: no promtool; it is in the package prometheus)';

interface RuleFile {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[];
}
interface CaseFile {
  readonly tests: readonly {
    readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[];
  }[];
}

const names = (parse(readFileSync(rules, 'utf8')) as RuleFile).groups.flatMap((group) =>
  group.rules.map(({ alert }) => alert),
);

/** What promtool says of alert rules with these words, tried with the cases. */
function tried(text: string): { readonly status: number | null; readonly said: string } {
  const folder = mkdtempSync(path.join(tmpdir(), 'alerts-'));
  try {
    copyFileSync(cases, path.join(folder, 'cases.yaml'));
    writeFileSync(path.join(folder, 'alerts.yaml'), text);
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'cases.yaml'], {
      cwd: folder,
      encoding: 'utf8',
    });
    return { status, said: stdout + stderr };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the alert rules', () => {
  it('each have a case in which they fire, and one in which they are silent', () => {
    const { tests } = parse(readFileSync(cases, 'utf8')) as CaseFile;
    const all = tests.flatMap((test) => test.alert_rule_test);
    const tells = (firing: boolean): readonly string[] => [
      ...new Set(all.flatMap((one) => (one.exp_alerts.length > 0 === firing ? [one.alertname] : []))),
    ];
    expect(names.length).toBeGreaterThan(10);
    expect(tells(true).toSorted()).toEqual(names.toSorted());
    expect(tells(false).toSorted()).toEqual(names.toSorted());
  });
});

describe.skipIf(!hasPromtool)(`promtool${why}`, () => {
  it('takes the alert rules', () => {
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', rules], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`${names.length} rules found`);
  });

  it('sees each of them fire when it should, with its words, and not before', () => {
    expect(tried(readFileSync(rules, 'utf8'))).toMatchObject({ status: 0 });
  });

  it('notices an alert that compares the wrong way round', () => {
    const broken = readFileSync(rules, 'utf8').replace(
      'reconcile_blocked_deletes > 0',
      'reconcile_blocked_deletes < 0',
    );
    const { status, said } = tried(broken);
    expect(status).toBe(1);
    expect(said).toContain('ReconcileDeletesBlocked');
  });
});
