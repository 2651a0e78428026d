import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, isAsked, startCluster } from './cluster.ts';

const folder = path.resolve(import.meta.dirname, '../../deploy/kubernetes');
const deployment = '/apis/apps/v1/namespaces/firezone-reconcile/deployments/firezone-reconcile';

describe.skipIf(!isAsked)(
  `the manifests on a real API server${isAsked ? '' : ' (skipped: npm run test:kubernetes)'}`,
  () => {
    let cluster: Cluster;
    let scratch: string;
    let helm: string;

    beforeAll(async () => {
      // Both are built the first time, which takes minutes.
      helm = execFileSync(path.resolve(folder, '../../scripts/helm.sh'), { encoding: 'utf8' }).trim();
      cluster = await startCluster();
      scratch = mkdtempSync(path.join(tmpdir(), 'overlays-'));
    }, 900_000);

    afterAll(async () => {
      await cluster?.close();
      rmSync(scratch, { recursive: true, force: true });
    });

    /** Applies a kustomization with strict validation by the server; gives a line for each resource and each warning. */
    const apply = (directory: string): readonly string[] =>
      cluster.kubectl(['apply', '--validate=strict', '-k', directory]).trim().split('\n');

    /** A kustomization with these resources and components, all below deploy/kubernetes unless written beside it. */
    function overlay(
      name: string,
      parts: { readonly [list: string]: unknown },
      files: Record<string, string> = {},
    ): string {
      const directory = path.join(scratch, name);
      mkdirSync(directory);
      for (const [file, text] of Object.entries(files)) writeFileSync(path.join(directory, file), text);
      writeFileSync(path.join(directory, 'kustomization.yaml'), JSON.stringify(parts));
      return directory;
    }
    const below = (part: string): string => path.relative(path.join(scratch, 'any'), path.join(folder, part));

    it('base applies where there is no Prometheus operator, without a warning; applied again it changes nothing and says so', async () => {
      const made = apply(path.join(folder, 'base'));
      expect(made.filter((line) => !line.endsWith(' created'))).toEqual([]);
      const again = apply(path.join(folder, 'base'));
      expect(again).toHaveLength(made.length);
      expect(again.filter((line) => !line.endsWith(' unchanged'))).toEqual([]);
    });

    it('changed settings roll the pods', async () => {
      apply(path.join(folder, 'base'));
      const template = async (): Promise<unknown> =>
        ((await cluster.call('GET', deployment)).body['spec'] as Record<string, unknown>)['template'];
      const before = await template();
      const configMap = { name: 'firezone-reconcile-settings', behavior: 'replace', files: ['settings.yaml'] };
      const parts = { resources: [below('base')], namespace: 'firezone-reconcile', configMapGenerator: [configMap] };
      apply(overlay('settings', parts, { 'settings.yaml': 'baseUrl: https://other.example.com\n' }));
      expect(await template()).not.toEqual(before);
    });

    it('the components apply: monitoring with the operator’s kinds, the disruption budget, the look at the kernel', async () => {
      cluster.kubectl(['apply', '--validate=strict', '-f', '-'], JSON.stringify(operatorKinds));
      cluster.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
      const components = ['monitoring', 'disruption-budget'].map(below);
      const lines = apply(overlay('components', { resources: [below('base')], components }));
      expect(lines).toContain('servicemonitor.monitoring.coreos.com/firezone-reconcile created');
      expect(lines).toContain('prometheusrule.monitoring.coreos.com/firezone-reconcile created');
      expect(lines).toContain('poddisruptionbudget.policy/firezone-reconcile created');
      const files = { 'firezone.yaml': JSON.stringify(firezone) };
      const sidecar = overlay('sidecar', { resources: ['firezone.yaml'], components: [below('enforcement')] }, files);
      expect(apply(sidecar)).toEqual(['deployment.apps/vpn created']);
    });

    it('the Helm chart applies, by the server’s side: one server, and a fleet in shards with all that can be switched on', () => {
      const chart = path.resolve(folder, '../helm/firezone-reconcile');
      for (const example of ['one-server', 'fleet'] as const) {
        const namespace = `helm-${example}`;
        cluster.kubectl(['create', 'namespace', namespace]);
        const values = path.join(chart, `examples/${example}.yaml`);
        const flags = ['-n', namespace, '--kube-version', '1.32.0', '--values', values];
        const made = execFileSync(helm, ['template', 'firezone-reconcile', chart, ...flags]);
        const strict = ['apply', '--server-side', '--validate=strict', '-n', namespace, '-f', '-'];
        const lines = cluster.kubectl(strict, made.toString()).trim().split('\n');
        expect(lines.filter((line) => !line.endsWith(' serverside-applied'))).toEqual([]);
        expect(lines.filter((line) => line.startsWith('deployment.apps/'))).toHaveLength(example === 'fleet' ? 2 : 1);
        const install = ['install', 'vpn', chart, '-n', namespace, '--values', values];
        const env = { ...process.env, KUBECONFIG: path.join(cluster.folder, 'kubeconfig'), HOME: scratch };
        const said = execFileSync(helm, install, { encoding: 'utf8', env });
        expect(said).toContain('STATUS: deployed');
        const notes = { 'one-server': 'looks after https://vpn.example.com', fleet: 'looks after 2 of 3 targets' };
        expect(said).toContain(notes[example]);
        expect(said).toMatch(/deployment\/vpn-firezone-reconcile/);
      }
    });

    it('a field that Kubernetes does not know is refused, so that the checks above can fail', () => {
      const wrong = { ...firezone, spec: { ...firezone.spec, replica: 2 } };
      const directory = overlay('wrong', { resources: ['firezone.yaml'] }, { 'firezone.yaml': JSON.stringify(wrong) });
      expect(() => apply(directory)).toThrow('unknown field "spec.replica"');
    });
  },
);

const firezone = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'vpn', namespace: 'default', labels: { 'app.kubernetes.io/name': 'firezone' } },
  spec: {
    selector: { matchLabels: { app: 'vpn' } },
    template: { metadata: { labels: { app: 'vpn' } }, spec: { containers: [{ name: 'firezone', image: 'firezone' }] } },
  },
};

const text = { type: 'string' };
const texts = { type: 'object', additionalProperties: text };
const object = (properties: object): object => ({ type: 'object', properties });
const list = (items: object): object => ({ type: 'array', items });

/** A kind of the Prometheus operator, with the fields that are used here. */
const kind = (name: string, spec: object): object => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${name.toLowerCase()}s.monitoring.coreos.com` },
  spec: {
    group: 'monitoring.coreos.com',
    scope: 'Namespaced',
    names: { kind: name, plural: `${name.toLowerCase()}s`, singular: name.toLowerCase() },
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: object({ spec }) } }],
  },
});

const operatorKinds = {
  apiVersion: 'v1',
  kind: 'List',
  items: [
    kind(
      'ServiceMonitor',
      object({
        selector: object({ matchLabels: texts }),
        endpoints: list(
          object({
            port: text,
            path: text,
            interval: text,
            authorization: object({ type: text, credentials: object({ name: text, key: text }) }),
          }),
        ),
      }),
    ),
    kind(
      'PrometheusRule',
      object({
        groups: list(
          object({
            name: text,
            rules: list(object({ alert: text, expr: text, for: text, labels: texts, annotations: texts })),
          }),
        ),
      }),
    ),
  ],
};
