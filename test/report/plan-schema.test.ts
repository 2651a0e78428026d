import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { alice, configuration, rule, startWorld, type World } from '../cli/harness.ts';

const schema: unknown = JSON.parse(readFileSync(new URL('../../schemas/plan.schema.json', import.meta.url), 'utf8'));
const validate = new Ajv2020({ allowUnionTypes: true }).compile(schema as object);

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

const expectValid = (text: string): void => {
  const valid = validate(JSON.parse(text));
  expect(validate.errors ?? []).toEqual([]);
  expect(valid).toBe(true);
};

describe('schemas/plan.schema.json describes every document', () => {
  it('of a plan with all kinds of change, an apply, a plan in sync', async () => {
    world.simulator.seed([
      { action: 'drop', destination: '192.0.2.2' },
      { action: 'drop', destination: '203.0.113.0/24' },
      { action: 'drop', destination: '198.51.100.0/24', user_id: alice },
    ]);
    world.write(
      'm/a.yaml',
      rule('wide', 'action: drop, destination: 192.0.2.0/24') +
        rule('web', `action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443, user_id: ${alice}`) +
        rule('kept', `action: drop, destination: 198.51.100.0/24, user_id: ${alice}`) +
        configuration(
          'vpn_session_duration: 3600\nopenid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}',
        ),
    );
    const env = { RECONCILE_SECRET_G: 'secret', RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=g@idp.example' };
    for (const args of [['--plan'], [], ['--plan'], ['--plan', '--base', 'm']]) {
      const run = await world.cli([...args, '--output', 'json', 'm'], { env });
      expect(run.code).toBe(0);
      expectValid(run.out);
    }
  });

  it('of refusals, invalid manifests, wrong usage, a lost connection, a snapshot', async () => {
    world.simulator.seed(
      Array.from({ length: 12 }, (_, i) => ({ action: 'drop' as const, destination: `192.0.${i}.0/24` })),
    );
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    world.write('bad/a.yaml', rule('a', 'action: drop, destination: 10.0.0.300'));
    await world.cli(['snapshot', '--out', 'live.json']);
    expectValid((await world.cli(['--output', 'json', 'm'])).out);
    expectValid((await world.cli(['--output', 'json', 'bad'])).out);
    expectValid((await world.cli(['--output', 'json', '--no-such-flag'])).out);
    expectValid(
      (await world.cli(['--output', 'json', 'm'], { env: { RECONCILE_BASE_URL: 'http://127.0.0.1:9' } })).out,
    );
    expectValid((await world.cli(['--plan', '--live', 'live.json', '--output', 'json', 'm'])).out);
  });

  it('of an apply in which steps fail, with outcomes in the listed order of the steps', async () => {
    world.write(
      'm/a.yaml',
      Array.from({ length: 12 }, (_, i) => rule(`r${i}`, `action: drop, destination: 192.0.${i}.0/24`)).join(''),
    );
    world.simulator.faults.inject({
      match: { method: 'POST', nth: 3, times: 1 },
      fault: { kind: 'delay', milliseconds: 150 },
    });
    world.simulator.faults.inject({
      match: { method: 'POST', nth: 5, times: 1 },
      fault: { kind: 'status', status: 403, body: '{}' },
    });
    const run = await world.cli(['--output', 'json', 'm']);
    expectValid(run.out);
    const { steps, outcomes } = run.json();
    expect(outcomes?.slice(0, steps.length).map(({ step }) => step)).toEqual(steps.map(({ id }) => id));
    // The run ends not converged, for the refused rule is missing.
    const failed = outcomes?.filter(({ outcome }) => outcome === 'failed') ?? [];
    expect(failed).toHaveLength(1);
    expect(run.json().problems).toMatchObject([
      {
        code: 'step-forbidden',
        severity: 'error',
        summary: expect.stringMatching(new RegExp(`^${failed[0]?.step} create drop 192\\.0\\.[0-9]+\\.0/24.*403`)),
        file: 'a.yaml',
        line: expect.any(Number),
      },
    ]);
  });
});
