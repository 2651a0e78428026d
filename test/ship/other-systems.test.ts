import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createTextLogger } from '../../src/adapters/log/text.ts';
import { createTokenSource, warnOfOpenToken } from '../../src/cli/token.ts';
import { exportRules } from '../../src/desired/export.ts';
import { exportConfiguration } from '../../src/desired/export-configuration.ts';
import { findProfile } from '../../src/model/profile.ts';
import { Secret } from '../../src/model/secret.ts';
import { binary, ensureBuilt } from '../controller/support/sidecar.ts';
import { freshConfiguration, liveRules, user } from '../plan/support.ts';

const examples = path.resolve(import.meta.dirname, '../../examples');

describe('on macOS and Windows, as far as it shows here', () => {
  let folder: string;

  beforeAll(() => {
    ensureBuilt();
    folder = mkdtempSync(path.join(tmpdir(), 'systems-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  afterEach(() => vi.restoreAllMocks());

  const run = (...args: readonly string[]) => spawnSync(process.execPath, [binary, ...args], { encoding: 'utf8' });

  it('a checkout with CRLF gives the same desired state and the same places', () => {
    const crlf = path.join(folder, 'crlf');
    cpSync(path.join(examples, 'minimal'), crlf, { recursive: true });
    for (const entry of readdirSync(crlf, { recursive: true, withFileTypes: true })) {
      const file = path.join(entry.parentPath, entry.name);
      if (entry.isFile()) writeFileSync(file, readFileSync(file, 'utf8').replaceAll('\n', '\r\n'));
    }
    const [built, builtCrlf] = [path.join(examples, 'minimal'), crlf].map((directory) => run('build', directory));
    expect(builtCrlf).toMatchObject({ status: 0, stdout: built?.stdout });
    expect(built?.stdout).toContain('kind: Rule');
    writeFileSync(
      path.join(crlf, 'bad.yaml'),
      'apiVersion: firezone/v0\r\nkind: Rule\r\nmetadata: {name: x}\r\nspec: {action: no}\r\n',
    );
    expect(run('validate', crlf).stdout + run('validate', crlf).stderr).toContain('bad.yaml:4:');
  });

  it.each(['C:\\base', '..\\base', '\\\\host\\share'])(
    'a folder named as on Windows is refused at its line: %s',
    (name) => {
      const manifests = mkdtempSync(path.join(folder, 'windows-'));
      const overlay = `apiVersion: firezone/v0\nkind: Overlay\nmetadata: {name: e}\nspec:\n  bases: ['${name}']\n`;
      writeFileSync(path.join(manifests, 'overlay.yaml'), overlay);
      const { status, stdout, stderr } = run('validate', manifests);
      expect([status, stdout + stderr]).toEqual([4, expect.stringContaining('overlay.yaml:5:')]);
    },
  );

  it('files of an export have names that differ even where case does not count', () => {
    const emails = new Map([
      [user('one'), 'Bob@example.com'],
      [user('two'), 'bob@example.com'],
    ]);
    const rules = exportRules(liveRules('drop 10.0.0.0/8 @one', 'drop 10.0.0.0/8 @two', 'drop 10.1.0.0/16'), {
      emails,
      mayCollide: false,
    });
    const saml = ['Okta', 'okta', 'OKTA'].map((id) => ({
      id,
      label: id,
      base_url: null,
      metadata: Secret.of(
        '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"/>',
      ),
      sign_requests: null,
      sign_metadata: null,
      signed_assertion_in_resp: null,
      signed_envelopes_in_resp: null,
      auto_create_users: false,
    }));
    const { files } = exportConfiguration(
      { ...freshConfiguration, saml_identity_providers: saml },
      findProfile('firezone-0.7'),
    );
    const paths = [...rules, ...files].map(({ path: name }) => name.toLowerCase());
    expect(paths).toHaveLength(7);
    expect(new Set(paths).size).toBe(paths.length);
  });

  it('where a mode says nothing, nobody is warned that others can read the token', () => {
    const file = path.join(folder, 'token');
    writeFileSync(file, 'token');
    chmodSync(file, 0o666);
    const said: string[] = [];
    const logger = createTextLogger('warn', (text) => said.push(text));
    const token = createTokenSource({ tokenFile: file, origins: new Map() }, {});
    warnOfOpenToken(token, logger);
    expect(said.join('')).toContain(`chmod 600 ${file}`);
    vi.spyOn(process, 'platform', 'get').mockReturnValue('win32');
    warnOfOpenToken(token, logger);
    expect(said).toHaveLength(1);
  });
});
