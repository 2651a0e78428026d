import { afterEach, describe, expect, test } from 'vitest';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { DiscoveryDoubles } from './discovery-doubles.ts';
import { EXCEPTIONS } from './exceptions.ts';
import { type Exchange, exchanges } from './recorded.ts';
import { Replay } from './replay.ts';

const TOKEN = 'token-of-the-administrator';

let simulator: Simulator | undefined;
let replay: Replay | undefined;

async function end(): Promise<void> {
  replay?.close();
  await simulator?.close();
}

async function begin(options: Partial<SimulatorOptions> = {}, written = true): Promise<void> {
  await end();
  simulator = await startSimulator({ token: TOKEN, ...options });
  replay = new Replay(simulator.url, (recorded) => recorded.replace('<token:admin>', TOKEN));
  // The recorded row had been written before.
  if (written) await reset();
}

async function reset(): Promise<void> {
  await write({ openid_connect_providers: [], saml_identity_providers: [], vpn_session_duration: 1 });
  await write({ vpn_session_duration: 0 });
}

async function write(configuration: Readonly<Record<string, unknown>>): Promise<void> {
  await replay?.call('PATCH', '/v0/configuration', { configuration });
}

afterEach(async () => {
  await end();
  simulator = undefined;
  replay = undefined;
});

const now = (): Readonly<Record<string, unknown>> => simulator?.configuration() ?? {};

/** Plays one exchange and compares what the stored configuration was before and is after, too. */
async function play(item: Exchange): Promise<string[]> {
  const before = now();
  const found = (await replay?.play(item)) ?? ['no server'];
  const after = now();
  const moved = before['updated_at'] !== after['updated_at'];
  if (item.updated_at_changed !== undefined && item.updated_at_changed !== null && item.updated_at_changed !== moved) {
    found.push(`updated_at changed: recorded ${item.updated_at_changed}, got ${moved}`);
  }
  if (item.changed !== undefined) {
    const names = Object.keys(after).filter((name) => name !== 'updated_at');
    const differing = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
    const changed = Object.fromEntries(differing.map((name) => [name, [before[name], after[name]]]));
    found.push(...(replay?.mapping.differences(item.changed, changed, 'changed') ?? []));
  }
  return found.map((difference) => `${item.step}: ${difference}`);
}

async function playAll(items: readonly Exchange[], fresh: (item: Exchange) => boolean): Promise<string[]> {
  const differences: string[] = [];
  for (const item of items) {
    if (fresh(item)) await begin();
    differences.push(...(await play(item)));
  }
  return differences;
}

describe('recordings of the configuration', () => {
  test('config_walk_2 is answered as the real server answered it', async () => {
    await begin();
    await write({ default_client_endpoint: '2001:db8::1' });
    expect(await playAll(exchanges('config_walk_2'), () => false)).toEqual([]);
  });

  test('configuration_fields: every value of every field, from the defaults', async () => {
    expect(await playAll(exchanges('configuration_fields'), () => true)).toEqual([]);
  });

  test('configuration_body: bodies, nulls and the logo', async () => {
    const begins = (item: Exchange): boolean =>
      item.changed !== undefined || /^(missing_wrapper|null_all_scalars|logo_set)$/.test(item.step);
    expect(await playAll(exchanges('configuration_body'), begins)).toEqual([]);
  });

  test('configuration_poisoned: values that make every later update fail', async () => {
    const begins = (item: Exchange): boolean => item.step.endsWith('__poison');
    expect(await playAll(exchanges('configuration_poisoned'), begins)).toEqual([]);
  });

  test('configuration_env_override: fields that the environment pins', async () => {
    const environment = { default_client_mtu: 1400, local_auth_enabled: true, default_client_dns: ['9.9.9.9'] };
    await begin({ environment }, false);
    expect(await playAll(exchanges('configuration_env_override'), () => false)).toEqual([]);
  });

  test('configuration_saml: SAML providers and their metadata', async () => {
    let chain = false;
    const begins = (item: Exchange): boolean => {
      const first = item.step === 'set_two';
      chain ||= first;
      return first || !chain;
    };
    expect(await playAll(exchanges('configuration_saml'), begins)).toEqual([]);
  });

  test('configuration_oidc: OpenID Connect providers and what is fetched for them (long)', async () => {
    const doubles = await DiscoveryDoubles.start();
    try {
      let late = 0;
      const milliseconds = (): number => Date.now() + late;
      await begin({ discovery: 'fetch', discoveryFetch: { milliseconds, timeout: 5_000, lookup: doubles.lookup } });
      const differences: string[] = [];
      let chain = false;
      for (const item of exchanges('configuration_oidc')) {
        if (!chain) await reset();
        if (item.step === 'final_get') await reset();
        chain ||= item.step === 'set_two';
        if (chain) late += 10_000;
        doubles.down = item.step.startsWith('down_');
        doubles.hits.clear();
        differences.push(...(await play(doubles.translate(item))));
        const hits = JSON.stringify(Object.fromEntries(doubles.hits));
        const recorded = JSON.stringify(item.discovery_hits);
        if (item.discovery_hits && recorded !== hits) differences.push(`${item.step}: hits ${recorded}, got ${hits}`);
      }
      const excepted = EXCEPTIONS.updatedAt.configuration_oidc.steps;
      const known = excepted.map((step) => new RegExp(`^${step}: \\$\\.data\\.updated_at: `));
      expect(differences.filter((difference) => !known.some((form) => form.test(difference)))).toEqual([]);
    } finally {
      await doubles.close();
    }
  });
});
