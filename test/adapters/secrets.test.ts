import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSecretResolver } from '../../src/adapters/secrets.ts';
import type { SecretReference } from '../../src/desired/context.ts';
import { reveal } from '../../src/model/secret.ts';

let base: string;
let root: string;

beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'secrets-'));
  root = path.join(base, 'manifests');
  mkdirSync(path.join(root, 'sub'), { recursive: true });
  mkdirSync(path.join(base, 'vault'));
  writeFileSync(path.join(root, 'idp.xml'), '<xml/>\n');
  writeFileSync(path.join(base, 'token'), 'CANARY-token');
  writeFileSync(path.join(base, 'vault', 'oidc'), 'from the vault');
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

/** The value, `unknown`, or the refusal. */
function read(reference: SecretReference, file = 'a.yaml'): string {
  const resolve = createSecretResolver({
    root,
    dirs: [path.join(base, 'vault')],
    envNames: ['IDP_SECRET', 'RECONCILE_TOKEN'],
    forbiddenFiles: [path.join(base, 'token'), path.join(root, 'settings.yaml')],
    environment: {
      PATH: 'CANARY-path',
      RECONCILE_TOKEN: 'CANARY-env',
      RECONCILE_SECRET_A: 'value a',
      IDP_SECRET: 'value b',
      OTHER: 'CANARY-other',
    },
  });
  const result = resolve(reference, { file, line: 1, column: 1 });
  return result.ok ? (reveal(result.value) ?? 'unknown') : `refused: ${result.error}`;
}

describe('row 29: a manifest author cannot read the secrets of the process', () => {
  it.each(['PATH', 'RECONCILE_TOKEN', 'OTHER', 'RECONCILE_SECRET_', 'reconcile_secret_a', 'RECONCILE_TOKEN_FILE', ''])(
    'by the environment variable %s',
    (env) => {
      expect(read({ env })).toMatch(/^refused: Manifests may not read/);
    },
  );

  it.each([
    'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n',
    '\0GITCRYPT\0\xff',
    'Salted__\x01',
    'U2FsdGVkX1+vupppZksvRf5pq5g5XjFRlipRkwB0K1Y=\r\n',
    '$ANSIBLE_VAULT;1.1;AES256\n',
    'age-encryption.org/v1\n',
    '-----BEGIN AGE ENCRYPTED FILE-----\n',
    '-----BEGIN PGP MESSAGE-----\r\n',
  ])('takes no file that begins with %j for the secret that it stands for', (text) => {
    const refused = /^refused: This file is encrypted, or a pointer of Git LFS: unlock or fetch it in a step before\.$/;
    for (const name of [path.join(root, 'key'), path.join(base, 'vault', 'key')]) {
      writeFileSync(name, text, 'latin1');
      expect(read({ file: name })).toMatch(refused);
    }
  });

  it('but may read what is allowed by prefix or by the settings', () => {
    expect(read({ env: 'RECONCILE_SECRET_A' })).toBe('value a');
    expect(read({ env: 'IDP_SECRET' })).toBe('value b');
    expect(read({ env: 'RECONCILE_SECRET_NOT_SET' })).toBe('unknown');
  });

  it.each(['/proc/self/environ', '../token', '/etc/hostname', 'sub/../../token', '..', '.', '', 'a\0b'])(
    'by the path %j',
    (file) => {
      expect(read({ file })).toMatch(/^refused: /);
    },
  );

  it.each([
    ['/proc/self/environ', /outside/],
    ['../token', /outside/],
    ['/etc/hostname', /outside/],
  ])('by a symbolic link to %s', (target, message) => {
    symlinkSync(target, path.join(root, 'link'));
    expect(read({ file: 'link' })).toMatch(message);
    expect(read({ file: 'link' })).not.toContain('CANARY');
  });

  it('by a linked directory', () => {
    symlinkSync(base, path.join(root, 'up'));
    expect(read({ file: 'up/token' })).toMatch(/outside/);
  });

  it('by a hard link to the token file, or the settings file inside the root', () => {
    linkSync(path.join(base, 'token'), path.join(root, 'innocent'));
    expect(read({ file: 'innocent' })).toMatch(/own/);
    writeFileSync(path.join(root, 'settings.yaml'), 'token: CANARY');
    expect(read({ file: 'settings.yaml' })).toMatch(/own/);
  });

  it('by a FIFO, which would hang, or a directory', () => {
    execFileSync('mkfifo', [path.join(root, 'fifo')]);
    expect(read({ file: 'fifo' })).toMatch(/regular/);
    expect(read({ file: 'sub' })).toMatch(/regular/);
  });

  it('but may read files below the manifest directory and below secrets.dirs', () => {
    expect(read({ file: 'idp.xml' })).toBe('<xml/>\n');
    expect(read({ file: '../idp.xml' }, 'sub/a.yaml')).toBe('<xml/>\n');
    expect(read({ file: path.join(base, 'vault', 'oidc') })).toBe('from the vault');
    expect(read({ file: 'not-there.xml' })).toBe('unknown');
  });

  it('and a ConfigMap’s chain of links inside the root works', () => {
    mkdirSync(path.join(root, '..2026_11'));
    writeFileSync(path.join(root, '..2026_11', 'meta.xml'), 'mounted');
    symlinkSync('..2026_11', path.join(root, '..data'));
    symlinkSync('..data/meta.xml', path.join(root, 'meta.xml'));
    expect(read({ file: 'meta.xml' })).toBe('mounted');
  });
});
