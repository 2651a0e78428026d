import fs, { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { openJournal } from '../../src/adapters/journal.ts';
import { findOpenGaps } from '../../src/apply/open-gaps.ts';
import { isRefusedForGood } from '../../src/controller/pass-ending.ts';
import type { ConfigurationFields, OidcProvider } from '../../src/model/configuration.ts';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { Secret } from '../../src/model/secret.ts';
import type { ApiResult, LiveApi } from '../../src/ports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { workspace } from '../manifest/cli.ts';
import { desiredState, rule, type TestOptions, testRun, token, user, writes } from './support.ts';

const closers: (() => unknown)[] = [];

/** What modules that imported it by name call from now on. */
function replaceAppend(append: typeof fs.appendFileSync): void {
  fs.appendFileSync = append;
  syncBuiltinESMExports();
}

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function simulate(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const users = [{ name: 'alice', id: user, email: 'alice@example.test' }];
  const simulator = await startSimulator({ token, users, ...options });
  closers.push(() => simulator.close());
  return simulator;
}

type Fields = Partial<ConfigurationFields>;

async function run(simulator: Simulator, lines: readonly string[], fields: Fields | null, options: TestOptions = {}) {
  const one = testRun(simulator.url, desiredState(lines.map(rule), fields), options);
  const plan = await one.plan();
  const begun = simulator.requests().length;
  const report = await one.apply(plan);
  await one.close();
  return { plan, report, clock: one.clock, requests: simulator.requests().slice(begun) };
}

const provider: OidcProvider = {
  id: 'okta',
  label: 'Okta',
  scope: 'openid email profile',
  response_type: 'code',
  client_id: 'client',
  client_secret: Secret.of('canary-secret'),
  discovery_document_uri: 'https://idp.example.com/.well-known/openid-configuration',
  redirect_uri: null,
  auto_create_users: false,
};

describe('the Configuration', () => {
  test('is sent with the fields that differ, secrets and all, and then in sync', async () => {
    const simulator = await simulate();
    const fields: Fields = { default_client_mtu: 1300, vpn_session_duration: 0, openid_connect_providers: [provider] };
    const { report, requests } = await run(simulator, [], fields);
    expect(report.end).toBe('converged');
    const sent = JSON.parse(requests.find(({ method }) => method === 'PATCH')?.body ?? '{}') as {
      configuration: object;
    };
    expect(Object.keys(sent.configuration).sort()).toEqual(['default_client_mtu', 'openid_connect_providers']);
    expect(JSON.stringify(sent)).toContain('canary-secret');
    expect(JSON.stringify(report)).not.toContain('canary-secret');
  });

  test('goes without a field that the environment of the server pins, which is a problem of its own', async () => {
    const simulator = await simulate({ environment: { default_client_mtu: 1400 } });
    const { report, requests } = await run(simulator, [], {
      default_client_mtu: 1300,
      default_client_dns: ['9.9.9.9'],
    });
    const sent = requests.filter(({ method }) => method === 'PATCH').map(({ body }) => body);
    expect(sent).toHaveLength(2);
    expect(sent[1]).toBe('{"configuration":{"default_client_dns":["9.9.9.9"]}}');
    expect(simulator.configuration()).toMatchObject({ default_client_dns: ['9.9.9.9'], default_client_mtu: 1280 });
    expect(report.problems.map(({ code, summary }) => `${code} ${summary}`).join()).toMatch(
      /^field-pinned.*DEFAULT_CLIENT_MTU/,
    );
    expect(report.outcomes).toMatchObject([{ outcome: 'failed', fields: ['default_client_dns'] }]);
    expect(report.end).toBe('not-converged');
  });

  test.each([
    [200, ['vpn_session_duration', 'default_client_dns']],
    [500, ['vpn_session_duration', 'default_client_dns']],
    [403, ['vpn_session_duration', 'default_client_dns']],
    [422, []],
  ])('names what it may have changed beside a pinned field where that is answered with %i', async (status, fields) => {
    const simulator = await simulate({ environment: { default_client_mtu: 1400 } });
    let patches = 0;
    const wrap = (api: LiveApi): LiveApi => ({
      ...api,
      updateConfiguration: async ({ vpn_session_duration: _, ...others }, signal) => {
        if (patches++ === 0 || status === 200) return await api.updateConfiguration(others, signal);
        return { kind: 'answer', status, body: null, retryAfterMs: null };
      },
    });
    const wanted: Fields = { default_client_mtu: 1300, default_client_dns: ['9.9.9.9'], vpn_session_duration: 3600 };
    const { report } = await run(simulator, [], wanted, { wrap });
    expect(report.outcomes[0]).toMatchObject({ outcome: 'failed', status, fields });
  });

  test('is not sent at all when without the pinned field nobody could sign in', async () => {
    const simulator = await simulate({ environment: { openid_connect_providers: [] } });
    const fields: Fields = { local_auth_enabled: false, openid_connect_providers: [provider] };
    const { report, requests } = await run(simulator, [], fields);
    expect(requests.filter(({ method }) => method === 'PATCH')).toHaveLength(1);
    expect(simulator.configuration()).toMatchObject({ local_auth_enabled: true });
    expect(report.problems.map(({ code }) => code).sort()).toEqual(['field-pinned', 'locks-out', 'replan-refused']);
  });

  test('--allow-lockout sends the rest even so', async () => {
    const simulator = await simulate({ environment: { openid_connect_providers: [] } });
    const fields: Fields = { local_auth_enabled: false, openid_connect_providers: [provider] };
    await run(simulator, [], fields, { allowLockout: true });
    expect(simulator.configuration()).toMatchObject({ local_auth_enabled: false });
  });

  test('names a provider that the server refused by its place in the manifest, not by the server’s own count', async () => {
    const idp = createServer((request, response) => {
      response.statusCode = request.url === '/good' ? 200 : 404;
      const names = ['jwks_uri', 'authorization_endpoint', 'token_endpoint', 'userinfo_endpoint'];
      const fields = Object.fromEntries(names.map((name) => [name, `http://${request.headers.host}/good`]));
      response.end(JSON.stringify({ ...fields, response_types_supported: ['code'], keys: [] }));
    });
    await new Promise<void>((resolve) => void idp.listen(0, '127.0.0.1', resolve));
    closers.push(() => void idp.close());
    const { port } = idp.address() as AddressInfo;
    const simulator = await simulate({ discovery: 'fetch' });
    const env = {
      RECONCILE_TOKEN: token,
      RECONCILE_BASE_URL: simulator.url,
      RECONCILE_SECRET_CLIENT: 'canary',
      RECONCILE_BIND_SECRET: `RECONCILE_SECRET_CLIENT=okta@127.0.0.1:${port}`,
    };
    const place = workspace(env);
    closers.push(() => place.remove());
    const write = (path: string): void => {
      const one = `{id: okta, label: Okta, client_id: c, client_secret: {env: RECONCILE_SECRET_CLIENT}, auto_create_users: false, discovery_document_uri: "http://127.0.0.1:${port}/${path}"}`;
      const text = `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n  openid_connect_providers:\n    - ${one}\n`;
      writeFileSync(join(place.directory, 'configuration.yaml'), text);
    };
    write('good');
    const bound = ['--bind-secret', `RECONCILE_SECRET_CLIENT=okta@http://127.0.0.1:${port}`];
    const first = await place.run('--yes', ...bound, '.');
    expect(first.code, first.stdout + first.stderr).toBe(0);
    write('bad');
    const { stdout, code } = await place.run('--yes', '--output', 'json', ...bound, '.');
    expect(code).toBe(1);
    const { problems } = JSON.parse(stdout) as { problems: readonly Record<string, unknown>[] };
    const [problem] = problems.filter(({ code }) => code === 'step-rejected');
    expect(problem).toMatchObject({ file: 'configuration.yaml', line: 6 });
    expect(problem?.['summary']).toContain('openid_connect_providers[0].discovery_document_uri (id `okta`) is invalid');
    expect(stdout).not.toContain('openid_connect_providers[1]');
  });

  const delays: readonly (readonly [string, 'plan' | 'post' | 'patch' | 'read', number | null])[] = [
    ['rules are written', 'post', null],
    ['the filter of a server that was away is waited for', 'plan', null],
    ['its PATCH is sent again', 'patch', 503],
    ['the server limits the rate of its PATCH', 'patch', 429],
    ['its PATCH waits as a proxy asked, after the server was read', 'read', 503],
  ];
  for (const [when, turnedOff, status] of delays) {
    test(`is not sent where others turned off the only other way to sign in while ${when}`, async () => {
      const simulator = await simulate();
      const turnOff = async (answer: ApiResult): Promise<ApiResult> => {
        await fetch(`${simulator.url}/v0/configuration`, {
          method: 'PATCH',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: '{"configuration":{"local_auth_enabled":false}}',
        });
        return answer;
      };
      await run(simulator, [], { openid_connect_providers: [provider] });
      const match = { method: 'PATCH', times: 1 };
      const headers = when === 'its PATCH is sent again' ? {} : { 'retry-after': '4' };
      if (status !== null) simulator.faults.inject({ match, fault: { kind: 'status', status, headers } });
      let [patches, reads] = [0, 0];
      const wrap = (api: LiveApi): LiveApi => ({
        ...api,
        createRule: async (...args) => await turnOff(await api.createRule(...args)),
        updateConfiguration: async (...args) => {
          const answer = await api.updateConfiguration(...args);
          patches++;
          return turnedOff === 'patch' ? await turnOff(answer) : answer;
        },
        getConfiguration: async (...args) => {
          const answer = await api.getConfiguration(...args);
          const isPlan = reads++ === 0;
          return turnedOff === (isPlan ? 'plan' : patches > 0 && 'read') ? await turnOff(answer) : answer;
        },
      });
      const lines = turnedOff === 'post' ? ['drop 10.0.0.0/8'] : [];
      const { report } = await run(
        simulator,
        lines,
        { openid_connect_providers: [] },
        { wrap, afterOutage: turnedOff === 'plan', limits: { concurrency: 1 } },
      );
      expect(simulator.configuration()).toMatchObject({
        local_auth_enabled: false,
        openid_connect_providers: [{ id: 'okta' }],
      });
      expect(report.problems.at(-1)).toMatchObject({
        code: 'replan-refused',
        summary: expect.stringMatching(/sign in/),
      });
      expect(report.end).toBe('not-converged');
    });
  }

  test('counts as done where the server carries it out late, after a proxy gave up and it was read', async () => {
    const simulator = await simulate();
    simulator.faults.inject({ match: { method: 'PATCH', times: 1 }, fault: { kind: 'status', status: 502 } });
    let [patches, reads] = [0, 0];
    const wrap = (api: LiveApi): LiveApi => ({
      ...api,
      updateConfiguration: async (...args) => {
        patches++;
        return await api.updateConfiguration(...args);
      },
      getConfiguration: async (...args) => {
        const answer = await api.getConfiguration(...args);
        if (patches === 1 && ++reads === 1) await api.updateConfiguration({ default_client_mtu: 1300 }, args[0]);
        return answer;
      },
    });
    const { report } = await run(simulator, [], { default_client_mtu: 1300 }, { wrap });
    expect([report.end, report.outcomes.map(({ outcome }) => outcome), patches]).toEqual(['converged', ['done'], 1]);
  });

  test('is unknown where each PATCH was answered by a proxy alone, for the server may carry it out yet', async () => {
    const simulator = await simulate();
    simulator.faults.inject({ match: { method: 'PATCH' }, fault: { kind: 'status', status: 504 } });
    const { report } = await run(simulator, [], { default_client_mtu: 1300 });
    expect(report.outcomes).toMatchObject([{ outcome: 'unknown', status: 504 }]);
  });

  /** A server that cannot read the document of any provider that it is sent. */
  const unread =
    (reason: string) =>
    (api: LiveApi): LiveApi => ({
      ...api,
      updateConfiguration: async (fields, signal) => {
        if (!('openid_connect_providers' in fields)) return await api.updateConfiguration(fields, signal);
        const wrong = [{}, { discovery_document_uri: [`is invalid. Reason: ${reason}`] }];
        const body = { errors: { openid_connect_providers: wrong } };
        return { kind: 'answer', status: 422, body, retryAfterMs: null };
      },
    });
  const silent = '%Mint.TransportError{reason: :timeout}';

  test('going back sends before its providers what lets people sign in, and the rest', async () => {
    const simulator = await simulate();
    await run(simulator, [], { openid_connect_providers: [provider] });
    await run(simulator, [], { local_auth_enabled: false });
    const fields: Fields = {
      local_auth_enabled: true,
      default_client_mtu: 1300,
      openid_connect_providers: [{ ...provider, label: 'Former' }],
    };
    const { report } = await run(simulator, [], fields, { goesBack: true, wrap: unread(silent) });
    expect(simulator.configuration()).toMatchObject({ local_auth_enabled: true, default_client_mtu: 1300 });
    expect(report.outcomes).toMatchObject([
      { outcome: 'failed', status: 422, noAnswer: 'provider', fields: ['local_auth_enabled', 'default_client_mtu'] },
    ]);
    const done = await run(simulator, [], { ...fields, default_client_mtu: 1400 }, { goesBack: true });
    expect(done.report.outcomes).toMatchObject([{ outcome: 'done' }]);
    expect(simulator.configuration()).toMatchObject({ openid_connect_providers: [{ label: 'Former' }] });
  });

  test('going back does not cut off those whom a provider vouches for before that provider is back', async () => {
    const simulator = await simulate();
    await run(simulator, [], { openid_connect_providers: [provider], disable_vpn_on_oidc_error: false });
    const fields: Fields = {
      disable_vpn_on_oidc_error: true,
      openid_connect_providers: [{ ...provider, label: 'Former' }],
    };
    await run(simulator, [], fields, { goesBack: true, wrap: unread(silent) });
    expect(simulator.configuration()).toMatchObject({ disable_vpn_on_oidc_error: false });
    await run(simulator, [], fields, { goesBack: true });
    expect(simulator.configuration()).toMatchObject({ ...fields, openid_connect_providers: [{ label: 'Former' }] });
  });

  test('going back removes a provider although what came with it is pinned, once local sign-in is back', async () => {
    const simulator = await simulate({ environment: { disable_vpn_on_oidc_error: false } });
    await run(simulator, [], { openid_connect_providers: [provider] });
    await run(simulator, [], { local_auth_enabled: false });
    const fields = { local_auth_enabled: true, openid_connect_providers: [], disable_vpn_on_oidc_error: true };
    const { report } = await run(simulator, [], fields, { goesBack: true });
    expect(simulator.configuration()).toMatchObject({ local_auth_enabled: true, openid_connect_providers: [] });
    expect(report.problems.map(({ code }) => code)).not.toContain('locks-out');
  });

  test.each([502, 500])(
    'going back sends no provider where a proxy answers what goes before them with %i',
    async (status) => {
      const simulator = await simulate();
      await run(simulator, [], { openid_connect_providers: [provider] });
      await run(simulator, [], { local_auth_enabled: false });
      simulator.faults.inject({ match: { method: 'PATCH' }, fault: { kind: 'status', status } });
      const fields: Fields = { local_auth_enabled: true, openid_connect_providers: [{ ...provider, label: 'Former' }] };
      const { report } = await run(simulator, [], fields, { goesBack: true });
      expect(report.outcomes.map((one) => [one.status, one.surprise, one.fields])).toEqual([
        [status, undefined, ['local_auth_enabled']],
      ]);
    },
  );

  test('going back blames nobody where a proxy answered what goes before the providers with 403, after the server took it', async () => {
    const simulator = await simulate();
    await run(simulator, [], { openid_connect_providers: [provider] });
    await run(simulator, [], { local_auth_enabled: false });
    const fault = { kind: 'status', status: 403, commit: true } as const;
    simulator.faults.inject({ match: { method: 'PATCH', times: 1 }, fault });
    const fields: Fields = { local_auth_enabled: true, openid_connect_providers: [{ ...provider, label: 'Former' }] };
    const { report } = await run(simulator, [], fields, { goesBack: true });
    expect(report.end).toBe('converged');
    expect(report.outcomes).toMatchObject([
      { outcome: 'failed', status: 403, surprise: false, fields: Object.keys(fields) },
    ]);
  });

  test.each([403, 422])(
    'going back leaves the only provider where the server refuses to let people sign in otherwise (%i)',
    async (status) => {
      const simulator = await simulate();
      await run(simulator, [], { openid_connect_providers: [provider] });
      await run(simulator, [], { local_auth_enabled: false });
      const wrap = (api: LiveApi): LiveApi => ({
        ...api,
        updateConfiguration: async (...args) => {
          const isRefused = 'local_auth_enabled' in args[0];
          return isRefused
            ? { kind: 'answer', status, body: null, retryAfterMs: null }
            : await api.updateConfiguration(...args);
        },
      });
      const fields: Fields = { local_auth_enabled: true, openid_connect_providers: [] };
      const { report } = await run(simulator, [], fields, { goesBack: true, wrap });
      expect(report.end).toBe('not-converged');
      expect(simulator.configuration()).toMatchObject({ openid_connect_providers: [{ id: 'okta' }] });
    },
  );

  test('going back turns local sign-in off with its providers, never before them', async () => {
    const simulator = await simulate();
    const fields: Fields = {
      local_auth_enabled: false,
      default_client_mtu: 1300,
      openid_connect_providers: [provider],
    };
    await run(simulator, [], fields, { goesBack: true, wrap: unread(silent) });
    expect(simulator.configuration()).toMatchObject({ local_auth_enabled: true, default_client_mtu: 1300 });
  });

  test.each([
    [silent, undefined, true],
    ['%Mint.TransportError{reason: :nxdomain}', undefined, true],
    ['{503, ""}', undefined, true],
    ['{404, ""}', undefined, false],
    ['{404, ""}', true, true],
  ])(
    'may pass where the server could not read a document (%s, going back: %s): %s',
    async (reason, goesBack, passes) => {
      const simulator = await simulate();
      const options = { wrap: unread(reason), ...(goesBack ? { goesBack } : {}) };
      const { report } = await run(simulator, [], { openid_connect_providers: [provider] }, options);
      const [outcome] = report.outcomes;
      expect([outcome?.noAnswer === 'provider', isRefusedForGood(report.outcomes)]).toEqual([passes, !passes]);
      // The server counts from the first that it had; nothing in a manifest is to be mended.
      expect(outcome?.message).toContain('openid_connect_providers[0].discovery_document_uri (id `okta`) is invalid');
      expect(outcome?.problem).toBeUndefined();
    },
  );

  for (const kind of ['reset-after', 'reset-before'] as const) {
    test(`is read again after a lost answer (${kind}) and sent twice only if it did not arrive`, async () => {
      const simulator = await simulate();
      simulator.faults.inject({ match: { method: 'PATCH', times: 1 }, fault: { kind } });
      const { report, requests } = await run(simulator, [], { default_client_mtu: 1300 });
      expect(report.end).toBe('converged');
      const patches = requests.filter(({ method }) => method === 'PATCH');
      expect(patches).toHaveLength(kind === 'reset-after' ? 1 : 2);
    });
  }
});

describe('a server without port rules', () => {
  test('is found out by its first answer: the rule is deleted at once, and no other with ports is sent', async () => {
    const simulator = await simulate({ portRules: false });
    const lines = Array.from({ length: 9 }, (_, index) => `drop 10.0.${index}.0/24 tcp 80-90`);
    const { report, requests } = await run(simulator, [...lines, 'accept 11.0.0.0/8'], null, {
      limits: { concurrency: 2 },
    });
    expect(simulator.rules().map(({ destination }) => destination)).toEqual(['11.0.0.0/8']);
    expect(requests.filter(({ body }) => body.includes('80 - 90')).length).toBeLessThanOrEqual(2);
    expect(report.problems.map(({ code }) => code)).toContain('ports-dropped');
    expect(report.outcomes.filter(({ outcome }) => outcome === 'failed')).toHaveLength(9);
    expect(report.end).toBe('not-converged');
  });

  test('does not get a rule widened by a PATCH either', async () => {
    const simulator = await simulate({ portRules: false, overlapConstraints: false });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/24' }]);
    const options = { profile: findProfile('generic') };
    const { report } = await run(simulator, ['drop 10.0.0.0/16 tcp 80'], null, options);
    expect(simulator.rules()).toMatchObject([{ destination: '10.0.0.0/24', port_range: null }]);
    expect(report.problems.map(({ code }) => code)).toContain('ports-dropped');
  });
});

describe('an outage', () => {
  const refusedAnswer: ApiResult = { kind: 'no-answer', sent: 'no', code: 'refused', message: 'refused', status: null };

  test('in the middle: writes wait until the server is back and its filter rebuilt, and the report says so', async () => {
    const simulator = await simulate();
    let down = 0;
    const flaky = (api: LiveApi): LiveApi => ({
      ...api,
      createRule: async (wire, signal) => {
        if (down === 0) down = 4;
        return down > 1 && down-- > 1 ? refusedAnswer : api.createRule(wire, signal);
      },
      listRules: async (signal) => (down > 1 && down-- > 1 ? refusedAnswer : api.listRules(signal)),
    });
    const { report, clock } = await run(simulator, ['drop 10.0.0.0/8'], null, { wrap: flaky });
    expect(report.end).toBe('converged');
    expect(report.problems.map(({ code }) => code)).toContain('server-restarted');
    expect(clock.now() - 1000).toBeGreaterThanOrEqual(3000);
  });

  test('before the apply: the first write waits for the filter', async () => {
    const simulator = await simulate();
    const { report, clock } = await run(simulator, ['drop 10.0.0.0/8'], null, { afterOutage: true });
    expect(report.end).toBe('converged');
    expect(clock.now() - 1000).toBeGreaterThanOrEqual(3000);
  });

  test('without an asynchronous filter nothing waits', async () => {
    const simulator = await simulate();
    const { report, clock } = await run(simulator, ['drop 10.0.0.0/8'], null, {
      afterOutage: true,
      profile: findProfile('generic'),
    });
    expect(report.enforcedInMs).toBeNull();
    expect(clock.now() - 1000).toBeLessThan(3000);
  });
});

test('--pace bounds the writes a second', async () => {
  const simulator = await simulate();
  const lines = Array.from({ length: 21 }, (_, index) => `accept 10.0.${index}.0/24`);
  const { report, clock } = await run(simulator, lines, null, { limits: { pace: 2 } });
  expect(report.end).toBe('converged');
  expect(clock.now() - 1000).toBeGreaterThanOrEqual(10_000);
});

test('the total deadline stops like a stop, and is named', async () => {
  const simulator = await simulate();
  const lines = Array.from({ length: 21 }, (_, index) => `accept 10.0.${index}.0/24`);
  const { report } = await run(simulator, lines, null, { limits: { pace: 2, totalTimeoutMs: 3000 } });
  expect(report.end).toBe('stopped');
  expect(report.problems.map(({ code }) => code)).toEqual(['deadline']);
  expect(report.outcomes).toHaveLength(21);
  expect(new Set(report.outcomes.map(({ outcome }) => outcome))).toEqual(new Set(['done', 'dropped']));
});

test('a server that refuses overlaps which the profile did not expect is planned for again', async () => {
  const simulator = await simulate();
  simulator.seed([
    { action: 'drop', destination: '10.0.0.0/24' },
    { action: 'drop', destination: '10.0.1.0/24' },
  ]);
  const { report } = await run(simulator, ['drop 10.0.0.0/16'], null, { profile: findProfile('generic') });
  expect(report.end).toBe('converged');
  expect(simulator.rules().map(({ destination }) => destination)).toEqual(['10.0.0.0/16']);
});

test('a rule that another writer made in the meantime is skipped, not failed', async () => {
  const simulator = await simulate();
  const meanwhile = (api: LiveApi): LiveApi => ({
    ...api,
    createRule: async (wire, signal) => {
      await api.createRule(wire, signal);
      return api.createRule(wire, signal);
    },
  });
  const { report } = await run(simulator, ['drop 10.0.0.0/8'], null, { wrap: meanwhile });
  expect(report.outcomes).toMatchObject([{ outcome: 'skipped', status: 422 }]);
  expect(report.end).toBe('converged');
  expect(writes(simulator.requests())).toHaveLength(2);
});

describe('the journal', () => {
  test('is on disk before each request of a gap and after it, private, and says what a kill leaves owed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'journal-'));
    closers.push(() => rm(folder, { recursive: true }));
    const path = join(folder, 'deep', 'journal.jsonl');
    const journal = await openJournal(path, () => 0);
    closers.push(() => journal.close());
    const simulator = await simulate();
    simulator.seed([{ action: 'drop', destination: '192.0.2.2' }]);
    const lines: string[] = [];
    simulator.onCall(({ method }) => {
      if (method !== 'GET') lines.push(readFileSync(path, 'utf8'));
    });
    const { report } = await run(simulator, ['drop 192.0.2.0/24'], null, { journal });
    expect(report.end).toBe('converged');
    const [afterDelete = '', afterCreate = ''] = lines;
    const owed = formatRuleKey(rule('drop 192.0.2.0/24'));
    expect(findOpenGaps(afterDelete)).toEqual(new Set([owed]));
    expect(findOpenGaps(`${afterCreate}{"event":"step-en`)).toEqual(new Set([owed]));
    const whole = await readFile(path, 'utf8');
    expect(findOpenGaps(whole)).toEqual(new Set());
    expect(whole.trim().split('\n')).toHaveLength(6);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test('begins a line of its own after one that a kill cut', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'journal-'));
    closers.push(() => rm(folder, { recursive: true }));
    const path = join(folder, 'journal.jsonl');
    await writeFile(path, '{"event":"step-started","owes":["drop 10.0.0.0/8 *"]}\n{"event":"step-en');
    const journal = await openJournal(path, () => 0);
    closers.push(() => journal.close());
    await journal.write({ event: 'pass-started' });
    await journal.write({ event: 'pass-ended' });
    const whole = await readFile(path, 'utf8');
    expect(
      whole
        .split('\n')
        .filter((line) => line.includes('pass-'))
        .map((line) => JSON.parse(line).event),
    ).toEqual(['pass-started', 'pass-ended']);
    expect(findOpenGaps(whole.slice(0, whole.indexOf('pass-ended')))).toEqual(new Set());
  });

  test('that could not be written for a moment has the end of every write all the same', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'journal-'));
    closers.push(() => rm(folder, { recursive: true }));
    const path = join(folder, 'journal.jsonl');
    const journal = await openJournal(path, () => 0);
    closers.push(() => journal.close());
    await journal.write({ event: 'step-started', step: 's1' });
    await journal.write({ event: 'step-ended', step: 's1', outcome: 'done' });
    const { appendFileSync } = fs;
    closers.push(() => replaceAppend(appendFileSync));
    replaceAppend(() => {
      throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
    });
    await nextTurn();
    await nextTurn();
    replaceAppend(appendFileSync);
    await journal.write({ event: 'step-started', step: 's2' });
    const steps = (await readFile(path, 'utf8')).split('\n').filter(Boolean);
    expect(steps.map((line) => JSON.parse(line).event)).toEqual(['step-started', 'step-ended', 'step-started']);
  });

  test('that has grown is set aside once a pass has ended, never with a gap that may be open', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'journal-'));
    closers.push(() => rm(folder, { recursive: true }));
    const path = join(folder, 'journal.jsonl');
    const filler = `{"event":"step-ended","step":"${'x'.repeat(1000)}"}\n`.repeat(17_000);
    await writeFile(path, `${filler}{"event":"step-started","owes":["drop 10.0.0.0/8 *"]}\n`);
    const journal = await openJournal(path, () => 0);
    closers.push(() => journal.close());
    expect(findOpenGaps(journal.earlier)).toEqual(new Set(['drop 10.0.0.0/8 *']));
    await journal.write({ event: 'step-started', step: 's1' });
    expect((await stat(path)).size).toBeGreaterThan(16 * 1024 * 1024);
    await journal.write({ event: 'pass-ended' });
    await journal.write({ event: 'pass-started' });
    expect((await stat(`${path}.1`)).size).toBeGreaterThan(16 * 1024 * 1024);
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ event: 'pass-started' });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  test('has the end of a write with the line that follows, and a moment later in any case', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'journal-'));
    closers.push(() => rm(folder, { recursive: true }));
    const path = join(folder, 'journal.jsonl');
    const journal = await openJournal(path, () => 0);
    closers.push(() => journal.close());
    const read = () => [...readFileSync(path, 'utf8').matchAll(/"step":"(\w+)"/g)].map(([, step]) => step);
    await journal.write({ event: 'step-ended', step: 'a' });
    expect(read()).toEqual([]);
    await journal.write({ event: 'step-started', step: 'b' });
    expect(read()).toEqual(['a', 'b']);
    await journal.write({ event: 'step-ended', step: 'c' });
    await journal.write({ event: 'step-ended', step: 'd' });
    await new Promise((resolve) => setImmediate(resolve));
    expect(read()).toEqual(['a', 'b', 'c', 'd']);
    void journal.write({ event: 'step-ended', step: 'e', gap: 'g' });
    expect(read()).toEqual(['a', 'b', 'c', 'd', 'e']);
    await journal.write({ event: 'step-ended', step: 'f' });
    await journal.close();
    expect(read().at(-1)).toBe('f');
    closers.pop();
  });
});
