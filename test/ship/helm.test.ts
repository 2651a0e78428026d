import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv } from 'ajv';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

const root = path.resolve(import.meta.dirname, '../..');
const chart = path.join(root, 'deploy/helm/firezone-reconcile');
const textOf = (file: string): string => readFileSync(path.join(chart, file), 'utf8');
const isValues = new Ajv({ strict: false }).compile(JSON.parse(textOf('values.schema.json')) as object);

/** The values that the page shows. */
const shown = [
  ...readFileSync(path.join(root, 'docs/how-to/helm.md'), 'utf8').matchAll(
    /```yaml\n\s*# values\.yaml\n([\s\S]*?)```/g,
  ),
].map(([, text = '']) => text);

describe('the Helm chart', () => {
  it('has the version of the package, and the alerts and the dashboard of deploy/ (else: npm run schemas)', () => {
    const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
    expect(parse(textOf('Chart.yaml'))).toMatchObject({ version, appVersion: version });
    for (const file of ['alerts.yaml', 'grafana/dashboard.json'])
      expect(textOf(`files/${path.basename(file)}`)).toBe(readFileSync(path.join(root, 'deploy', file), 'utf8'));
  });

  it('has values and examples of its schema, which refuses what is none', () => {
    for (const file of ['values.yaml', 'examples/one-server.yaml', 'examples/fleet.yaml'])
      expect([file, isValues(parse(textOf(file))), isValues.errors]).toEqual([file, true, null]);
    expect(shown).toHaveLength(2);
    for (const text of shown) expect([text, isValues(parse(text)), isValues.errors]).toEqual([text, true, null]);
    const wrong = ['replica: 2', 'settings: {tokenFile: x}', 'shards: [{name: EU, labels: {}}]', 'extraArgs: [x]'];
    for (const values of wrong) expect([values, isValues(parse(values))]).toEqual([values, false]);
  });
});

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [member: string]: unknown;
}

/** `npm run test:tools`: helm is built from its Go module. */
const isAsked = process.env['RECONCILE_TEST_TOOLS'] === '1';

describe.skipIf(!isAsked)(`the chart by the real helm${isAsked ? '' : ' (skipped: npm run test:tools)'}`, () => {
  const helm = isAsked ? execFileSync(path.join(root, 'scripts/helm.sh'), { encoding: 'utf8' }).trim() : '';
  const scratch = mkdtempSync(path.join(tmpdir(), 'helm-'));
  afterAll(() => rmSync(scratch, { recursive: true }));
  const example = (name: string): string => path.join(chart, `examples/${name}.yaml`);

  function run(verb: readonly string[], values: readonly string[], folder = chart) {
    const flags = values.flatMap((file) => ['--values', file]);
    return spawnSync(helm, [...verb, folder, '--kube-version', '1.32.0', ...flags], { encoding: 'utf8' });
  }

  function template(...values: readonly string[]): readonly Resource[] {
    const { stdout, stderr } = run(['template', 'firezone-reconcile', '--namespace', 'firezone-reconcile'], values);
    expect(stderr).toBe('');
    return parseAllDocuments(stdout, { version: '1.1' }).flatMap(
      (document) => (document.toJS() as Resource | null) ?? [],
    );
  }

  function refusal(values: unknown): string {
    const file = path.join(scratch, 'values.yaml');
    writeFileSync(file, JSON.stringify(values));
    const { status, stderr } = run(['template', 'x'], [file]);
    expect(status).toBe(1);
    return stderr;
  }

  it.each(['one-server', 'fleet'])('lints with the values of %s, whatever is a warning counted', (name) => {
    const { status, stdout } = run(['lint', '--strict'], [example(name)]);
    expect([status, stdout]).toEqual([0, expect.stringContaining('1 chart(s) linted, 0 chart(s) failed')]);
  });

  it.each(shown.map((text, index) => [index + 1, text] as const))(
    'takes the values that the page shows, %i',
    (_, text) => {
      const file = path.join(scratch, 'shown.yaml');
      writeFileSync(file, text);
      expect(template(file).filter(({ kind }) => kind === 'Deployment').length).toBeGreaterThan(0);
    },
  );

  it('makes for one server what kustomize makes of deploy/kubernetes', () => {
    const options = path.join(scratch, 'all.yaml');
    const on = { enabled: true };
    writeFileSync(options, JSON.stringify({ podDisruptionBudget: on, serviceMonitor: on, prometheusRule: on }));
    const base = path.join(root, 'deploy/kubernetes/base');
    const kustomization = {
      resources: [path.relative(scratch, base)],
      components: ['monitoring', 'disruption-budget'].map((part) =>
        path.relative(scratch, path.join(base, '..', part)),
      ),
      namespace: 'firezone-reconcile',
    };
    writeFileSync(path.join(scratch, 'kustomization.yaml'), JSON.stringify(kustomization));
    const built = execFileSync('kubectl', ['kustomize', scratch], { encoding: 'utf8' });
    const other = parseAllDocuments(built, { version: '1.1' }).map((document) => document.toJS() as Resource);
    const byKind = (resources: readonly Resource[]) =>
      Object.fromEntries(resources.flatMap((one) => (one.kind === 'Namespace' ? [] : [[one.kind, withoutNames(one)]])));
    expect(byKind(template(example('one-server'), options))).toEqual(byKind(other));
  });

  it('has probes and scrapes by https where the sidecar serves it', () => {
    const file = path.join(scratch, 'tls.yaml');
    const tls = { listenTlsCert: '/run/reconcile/tls.crt', listenTlsKey: '/run/reconcile/tls.key' };
    writeFileSync(file, JSON.stringify({ settings: tls, serviceMonitor: { enabled: true } }));
    const schemes = (...values: readonly string[]): readonly string[] =>
      [...JSON.stringify(template(example('one-server'), ...values)).matchAll(/"scheme":"(\w+)"/g)].map(
        ([, scheme = '']) => scheme,
      );
    expect(schemes()).toEqual([]);
    expect(schemes(file).toSorted()).toEqual(['HTTPS', 'HTTPS', 'HTTPS', 'https']);
  });

  it('notes each Secret once, however many shards share it', () => {
    const file = path.join(scratch, 'shared.yaml');
    const shards = ['eu', 'us'].map((region) => ({ name: region, labels: { region } }));
    writeFileSync(file, JSON.stringify({ shards }));
    // Only an install, which needs a cluster, prints the notes.
    const copy = path.join(scratch, 'chart');
    cpSync(chart, copy, { recursive: true });
    writeFileSync(
      path.join(copy, 'templates/notes.yaml'),
      'kind: Notes\ntext: {{ include (print .Template.BasePath "/NOTES.txt") . | toJson }}\n',
    );
    const verb = ['template', 'firezone-reconcile', '--show-only', 'templates/notes.yaml'];
    const { stdout } = run(verb, [example('fleet'), file], copy);
    expect((parse(stdout) as { text: string }).text.match(/get secret .*/g)).toEqual(['get secret firezone-reconcile']);
  });

  it('gives each shard its targets, their Leases and its Secret, and no Lease of another', () => {
    const resources = template(example('fleet'));
    const named = (kind: string, name: string) =>
      resources.find((one) => one.kind === kind && one.metadata.name === `firezone-reconcile-${name}`);
    expect(resources.filter(({ kind }) => kind === 'Deployment')).toHaveLength(2);
    const leases = { eu: ['eu-1', 'eu-2'], us: ['us-1'] };
    for (const [shard, targets] of Object.entries(leases)) {
      const [rule] = (named('Role', shard)?.['rules'] ?? []) as readonly { resourceNames: readonly string[] }[];
      expect(rule?.resourceNames).toEqual(targets.map((target) => `firezone-reconcile-${target}`));
      const text = JSON.stringify(named('Deployment', shard));
      expect(text).toContain(`"--label=region=${shard}"`);
      expect(text).toContain('"--lease=kubernetes:firezone-reconcile"');
      expect(text).toContain(`"serviceAccountName":"firezone-reconcile-${shard}"`);
      expect(text).toContain(`"secretName":"${shard === 'us' ? 'firezone-reconcile-us' : 'firezone-reconcile'}"`);
    }
    expect(resources.map(({ kind }) => kind)).toContain('PrometheusRule');
  });

  it('keeps a text what reads like a number or a yes: names of a release, of shards, of Secrets, labels', () => {
    const file = path.join(scratch, 'odd.yaml');
    const targets = ['1e3', 'on', '12'].map((name) => ({ name, baseUrl: 'https://x', labels: { shard: name } }));
    const shards = targets.map(({ name }) => ({ name, labels: { shard: name }, secretName: name }));
    const image = { repository: '123', tag: '45' };
    const on = { enabled: true };
    writeFileSync(
      file,
      JSON.stringify({
        ...{
          settings: { gitUrl: 'https://git.example.com/x.git' },
          fleet: { targets },
          shards,
          image,
          secretName: '12',
        },
        ...{ priorityClassName: 'yes', networkPolicy: { scrapeNamespace: 'null' }, podAnnotations: { team: '7' } },
        ...{ podDisruptionBudget: on, serviceMonitor: on, prometheusRule: on, dashboard: on },
      }),
    );
    for (const release of ['123', '0x1f', 'true', '1e3']) {
      const { stdout, stderr } = run(['template', release], [file]);
      expect(stderr).toBe('');
      const found = parseAllDocuments(stdout, { version: '1.1' }).map((document) => document.toJS() as unknown);
      const wrong = found.flatMap((one) => (one === null ? [] : listOddTexts(one)));
      expect([release, wrong]).toEqual([release, []]);
      expect(JSON.stringify(found)).toContain(`"app.kubernetes.io/instance":"${release}"`);
      expect(JSON.stringify(found)).toContain('"app.kubernetes.io/component":"1e3"');
    }
  });

  it.each<[string, object]>([
    ['settings.baseUrl and settings.gitUrl', {}],
    ['targets eu belongs', { eu: {}, us: {} }],
    ['belongs to no shard', { eu: { region: 'eu' } }],
    ['has no target', { eu: {}, us: { region: 'mars' } }],
  ])('refuses values that would leave a server to nobody, or to two: %s', (said, shards) => {
    const names = Object.keys(shards);
    const fleet = {
      targets: ['eu', 'us'].map((region) => ({ name: region, baseUrl: 'https://x', labels: { region } })),
    };
    const settings = names.length === 0 ? {} : { gitUrl: 'https://git.example.com/x.git' };
    const values = {
      settings,
      ...(names.length === 0 ? {} : { fleet }),
      shards: names.map((name) => ({ name, labels: shards[name as keyof typeof shards] })),
    };
    expect(refusal(values)).toContain(said === 'targets eu belongs' ? 'belongs to the shards eu and us' : said);
  });
});

/** Names, labels and other members that hold texts in Kubernetes, and hold something else here. */
function listOddTexts(value: unknown, key = '', parent = ''): readonly string[] {
  const isTexts = /^(labels|matchLabels|annotations)$/.test(parent);
  const isText = isTexts || /^(name|namespace|secretName|image|serviceAccountName|priorityClassName)$/.test(key);
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).flatMap(([name, one]) => listOddTexts(one, Array.isArray(value) ? '' : name, key));
  return isText && typeof value !== 'string' ? [`${key}: ${String(value)}`] : [];
}

/** A resource without what the two name differently: labels, the settings’ name, and what makes new pods. */
function withoutNames({ metadata: { name }, ...rest }: Resource): unknown {
  const text = JSON.stringify({ name, ...rest })
    .replace(/firezone-reconcile-settings-[a-z0-9]{10}/g, 'firezone-reconcile-settings')
    .replace(/"app\.kubernetes\.io\/instance":"[^"]*",?/g, '')
    .replace(/"annotations":\{"checksum\/settings":"[0-9a-f]*"\},?/g, '')
    .replace(/,}/g, '}');
  const { data, ...shown } = JSON.parse(text) as { readonly data?: Readonly<Record<string, string>> };
  const settings = data?.['settings.yaml'];
  return settings === undefined ? shown : { ...shown, settings: parse(settings) as unknown };
}
