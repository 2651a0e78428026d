import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { prometheusRule } from '../../scripts/schema-files.ts';
import { readSettingsFile } from '../../src/cli/settings-file.ts';
import { settingsOf } from './command-line.ts';
import { serviceMonitorSchema } from './service-monitor.schema.ts';

const folder = path.resolve(import.meta.dirname, '../../deploy/kubernetes');
const require = createRequire(import.meta.url);
const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Record<string, string> };
  readonly spec?: Record<string, unknown>;
  readonly [member: string]: unknown;
}

interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly securityContext: Record<string, unknown>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly [member: string]: unknown;
}

interface PodSpec {
  readonly containers: readonly Container[];
  readonly volumes: readonly { readonly name: string }[];
  readonly securityContext?: Record<string, unknown>;
  readonly [member: string]: unknown;
}

function build(directory: string): readonly Resource[] {
  const text = execFileSync('kubectl', ['kustomize', directory], { encoding: 'utf8' });
  return parseAllDocuments(text).map((document) => document.toJS() as Resource);
}

const isServiceMonitor = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(serviceMonitorSchema);

/** Checks against the schema of Kubernetes for that kind; throws what is wrong. */
function checkSchema(resource: Resource): void {
  if (resource.kind === 'ServiceMonitor') {
    if (!isServiceMonitor(resource)) throw new Error(JSON.stringify(isServiceMonitor.errors));
    return;
  }
  const module = require(`kubernetes-models/${resource.apiVersion}/${resource.kind}`) as Record<
    string,
    new (
      data: unknown,
    ) => { validate(): void }
  >;
  const Model = module[resource.kind];
  if (Model === undefined) throw new Error(`no schema for ${resource.kind}`);
  new Model(resource).validate();
}

function podOf(resources: readonly Resource[], kind: string): PodSpec {
  const found = resources.find((resource) => resource.kind === kind);
  const template = found?.spec?.['template'] as { readonly spec: PodSpec } | undefined;
  if (template === undefined) throw new Error(`no ${kind} with a pod`);
  return template.spec;
}

describe.skipIf(!hasKubectl)(`the Kubernetes manifests${hasKubectl ? '' : ' (skipped: no kubectl)'}`, () => {
  const scratch = mkdtempSync(path.join(tmpdir(), 'kustomize-'));
  afterAll(() => rmSync(scratch, { recursive: true }));

  const base = hasKubectl ? build(path.join(folder, 'base')) : [];
  const one = (kind: string, resources = base): Resource => {
    const found = resources.filter((resource) => resource.kind === kind);
    expect(found).toHaveLength(1);
    return found[0] as Resource;
  };
  /** The base with all components that stand by themselves. */
  const withComponents = hasKubectl ? build(overlay('all', { components: ['monitoring', 'disruption-budget'] })) : [];
  const monitor = one('ServiceMonitor', withComponents);
  const budget = one('PodDisruptionBudget', withComponents);

  /** A folder with a kustomization that takes in the base, as the docs describe it. */
  function overlay(
    name: string,
    { components = [], ...more }: { readonly components?: readonly string[]; [member: string]: unknown },
  ) {
    const directory = path.join(scratch, name);
    mkdirSync(directory);
    const below = (part: string): string => path.relative(directory, path.join(folder, part));
    const kustomization = { resources: [below('base')], components: components.map(below), ...more };
    writeFileSync(path.join(directory, 'kustomization.yaml'), JSON.stringify(kustomization));
    return directory;
  }

  it('are what Kubernetes takes for each kind', () => {
    const kinds = base.map(({ kind }) => kind).sort();
    expect(kinds).toEqual([
      'ConfigMap',
      'Deployment',
      'Namespace',
      'NetworkPolicy',
      'Role',
      'RoleBinding',
      'Service',
      'ServiceAccount',
    ]);
    for (const resource of [...base, monitor, budget]) checkSchema(resource);
    expect(() => checkSchema({ ...one('Deployment'), spec: { replicas: 'two' } })).toThrow();
  });

  it('have the alerts of deploy/alerts.yaml in the PrometheusRule (else: npm run schemas)', () => {
    const alerts = readFileSync(path.join(folder, '../alerts.yaml'), 'utf8');
    expect(readFileSync(path.join(folder, 'monitoring/prometheus-rule.yaml'), 'utf8')).toBe(prometheusRule(alerts));
    expect(one('PrometheusRule', withComponents).spec).toEqual(parse(alerts));
  });

  it('roll the pods when the settings change', () => {
    const configMap = { name: 'firezone-reconcile-settings', behavior: 'replace', files: ['settings.yaml'] };
    const directory = overlay('changed', { namespace: 'firezone-reconcile', configMapGenerator: [configMap] });
    writeFileSync(path.join(directory, 'settings.yaml'), 'baseUrl: https://other.example.com\n');
    const changed = build(directory);
    const nameIn = (resources: readonly Resource[]): unknown =>
      podOf(resources, 'Deployment').volumes.find(({ name }) => name === 'settings');
    expect(nameIn(changed)).not.toEqual(nameIn(base));
    expect(nameIn(base)).toEqual({ name: 'settings', configMap: { name: one('ConfigMap').metadata.name } });
  });

  it('name the image in one place, with the version of the package, and do not pull it at each start', () => {
    const { version } = JSON.parse(readFileSync(path.join(folder, '../../package.json'), 'utf8')) as {
      version: string;
    };
    expect(podOf(base, 'Deployment').containers[0]).toMatchObject({
      image: `firezone-reconcile:${version}`,
      imagePullPolicy: 'IfNotPresent',
    });
    const images = [{ name: 'firezone-reconcile', newName: 'registry.example.com/reconcile', newTag: '1.2.3' }];
    expect(podOf(build(overlay('image', { images })), 'Deployment').containers[0]).toMatchObject({
      image: 'registry.example.com/reconcile:1.2.3',
    });
  });

  it('select the pods by the label that the pods carry', () => {
    const labels = { 'app.kubernetes.io/name': 'firezone-reconcile' };
    const template = one('Deployment').spec?.['template'] as { metadata: { labels: unknown } };
    expect(template.metadata.labels).toEqual(labels);
    expect(one('Deployment').spec?.['selector']).toEqual({ matchLabels: labels });
    expect(one('Service').spec?.['selector']).toEqual(labels);
    expect(one('NetworkPolicy').spec?.['podSelector']).toEqual({ matchLabels: labels });
    expect(budget.spec?.['selector']).toEqual({ matchLabels: labels });
    expect(monitor.spec?.['selector']).toMatchObject({ matchLabels: labels });
  });

  it('have a ServiceMonitor that scrapes the Service’s port with the token of the pages', () => {
    const spec = monitor.spec as {
      selector: { matchLabels: object };
      endpoints: readonly {
        port: string;
        path: string;
        authorization: { credentials: { name: string; key: string } };
      }[];
    };
    expect(one('Service').metadata.labels).toMatchObject(spec.selector.matchLabels);
    const ports = one('Service').spec?.['ports'] as readonly { name: string }[];
    const [endpoint] = spec.endpoints;
    expect(ports.map(({ name }) => name)).toContain(endpoint?.port);
    expect(endpoint?.path).toBe('/metrics');
    const [container] = podOf(base, 'Deployment').containers;
    const tokenFile = settingsOf(container?.args ?? []).listenTokenFile ?? '';
    expect(path.basename(tokenFile)).toBe(endpoint?.authorization.credentials.key);
    const secrets = podOf(base, 'Deployment').volumes.find(({ name }) => name === 'secrets');
    expect(secrets).toMatchObject({ secret: { secretName: endpoint?.authorization.credentials.name } });
  });

  it.each<[string, (monitor: Resource) => unknown]>([
    ['a field that does not exist', (m) => ({ ...m, spec: { ...m.spec, endpoint: [] } })],
    [
      'an interval without a unit',
      (m) => ({ ...m, spec: { ...m.spec, endpoints: [{ port: 'http', interval: '30' }] } }),
    ],
    [
      'credentials as a text',
      (m) => ({ ...m, spec: { ...m.spec, endpoints: [{ authorization: { credentials: 'x' } }] } }),
    ],
    ['no selector', (m) => ({ ...m, spec: { endpoints: [{ port: 'http' }] } })],
    ['another version', (m) => ({ ...m, apiVersion: 'monitoring.coreos.com/v1beta1' })],
  ])('the schema of the ServiceMonitor refuses %s', (_, change) => {
    expect(() => checkSchema(change(monitor) as Resource)).toThrow();
  });

  it('run two replicas of which one writes, with a role that allows the Lease and nothing else', () => {
    expect(one('Deployment').spec?.['replicas']).toBe(2);
    const [container] = podOf(base, 'Deployment').containers;
    expect(settingsOf(container?.args ?? []).lease).toBe('kubernetes:firezone-reconcile');
    expect(one('Role')['rules']).toEqual([
      {
        apiGroups: ['coordination.k8s.io'],
        resources: ['leases'],
        resourceNames: ['firezone-reconcile'],
        verbs: ['get', 'update'],
      },
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create'] },
    ]);
  });

  it('keep to the restricted pod security standard', () => {
    const pod = podOf(base, 'Deployment');
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    for (const { securityContext } of pod.containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
    }
    expect(one('Namespace').metadata.labels?.['pod-security.kubernetes.io/enforce']).toBe('restricted');
  });

  it('hold no secret, and take each from a Secret that is made elsewhere', () => {
    expect(base.some(({ kind }) => kind === 'Secret')).toBe(false);
    const volumes = podOf(base, 'Deployment').volumes;
    expect(volumes.find(({ name }) => name === 'secrets')).toMatchObject({
      secret: { secretName: 'firezone-reconcile' },
    });
  });

  it('have settings that the command accepts, and probes at pages that need no token', () => {
    const text = (one('ConfigMap')['data'] as Record<string, string>)['settings.yaml'] ?? '';
    const file = path.join(scratch, 'settings.yaml');
    writeFileSync(file, text);
    expect(readSettingsFile(file).options.gitRef).toBe(parse(text)['gitRef']);
    const [container] = podOf(base, 'Deployment').containers;
    const paths = ['startupProbe', 'livenessProbe', 'readinessProbe'].map(
      (probe) => (container?.[probe] as { httpGet: { path: string } } | undefined)?.httpGet.path,
    );
    expect(paths).toEqual(['/healthz', '/healthz', '/readyz']);
  });

  it('mount what every path of the command line names', () => {
    for (const pod of [podOf(base, 'Deployment')]) {
      for (const { args, volumeMounts } of pod.containers) {
        const mounts = volumeMounts.map(({ mountPath }) => mountPath);
        const paths = args.flatMap((arg) => /^(?:--[a-z-]+=)?(\/[^:]*)$/.exec(arg)?.[1] ?? []);
        expect(paths.length).toBeGreaterThan(3);
        for (const name of paths)
          expect(
            mounts.some((mount) => name.startsWith(mount)),
            name,
          ).toBe(true);
      }
    }
  });

  it('add to a pod of Firezone a container that may read the packet filter and nothing more', () => {
    const component = path.relative(scratch, path.join(folder, 'enforcement'));
    const firezone = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'vpn', labels: { 'app.kubernetes.io/name': 'firezone' } },
      spec: {
        selector: { matchLabels: { app: 'vpn' } },
        template: {
          metadata: { labels: { app: 'vpn' } },
          spec: { containers: [{ name: 'firezone', image: 'firezone' }] },
        },
      },
    };
    writeFileSync(path.join(scratch, 'firezone.yaml'), JSON.stringify(firezone));
    const kustomization = { resources: ['firezone.yaml'], components: [component] };
    writeFileSync(path.join(scratch, 'kustomization.yaml'), JSON.stringify(kustomization));
    const resources = build(scratch);
    for (const resource of resources) checkSchema(resource);
    const pod = podOf(resources, 'Deployment');
    expect(pod.containers.map(({ name }) => name).sort()).toEqual(['firezone', 'reconcile']);
    const container = pod.containers.find(({ name }) => name === 'reconcile');
    expect(settingsOf(container?.args ?? []).enforcement).toBe('nft');
    expect(container?.securityContext).toMatchObject({
      runAsUser: 0,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] },
    });
  });
});
