import { afterEach, describe, expect, test } from 'vitest';
import type { RuleSeed } from '../../src/simulator/rules/rule.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { isObject, USERS } from './mapping.ts';
import { type Exchange, exchanges } from './recorded.ts';
import { Replay } from './replay.ts';

const TOKEN = 'token-of-the-administrator';
const users = [
  { name: 'alice', id: USERS.alice },
  { name: 'bob', id: USERS.bob },
];

let simulator: Simulator;
let replay: Replay;

async function begin(options: Partial<SimulatorOptions> = {}): Promise<void> {
  simulator = await startSimulator({ token: TOKEN, users, ...options });
  replay = new Replay(simulator.url, (recorded) => recorded.replace('<token:admin>', TOKEN));
}

afterEach(async () => {
  replay.close();
  await simulator.close();
});

async function empty(): Promise<void> {
  for (const rule of simulator.rules()) await replay.call('DELETE', `/v0/rules/${rule.id}`);
}

/** Plays exchanges in order and returns the differences, each with its step. */
async function playAll(items: readonly Exchange[], prepare: (item: Exchange) => Promise<void>): Promise<string[]> {
  const differences: string[] = [];
  for (const item of items) {
    await prepare(item);
    for (const difference of await replay.play(item)) differences.push(`${item.step}: ${difference}`);
  }
  return differences;
}

describe('recordings that run in order from an empty table', () => {
  for (const name of ['walk_3', 'rules_list', 'paths_methods']) {
    test(`${name} is answered as the real server answered it`, async () => {
      await begin();
      expect(await playAll(exchanges(name), async () => {})).toEqual([]);
    });
  }

  test('rule_delete: every deleted rule is there before', async () => {
    await begin();
    const deleted = exchanges('rule_delete').filter((item) => item.response.status === 204);
    for (const { request } of deleted) {
      const id = simulator.seed([{ destination: `10.0.0.${replay.mapping.size}` }])[0] ?? '';
      replay.mapping.bind(request.path.replace('/v0/rules/', '').toLowerCase(), id);
    }
    expect(await playAll(exchanges('rule_delete'), async () => {})).toEqual([]);
  });

  test('users: the list, a user by id or by e-mail, and how its rules go with it', async () => {
    const dave = { name: 'dave', email: 'dave-disabled@example.test', role: 'admin' as const, disabled: true };
    const frank = { name: 'frank', email: 'frank-demoted@example.test' };
    const known = [
      { ...dave, id: '61144798-3070-4781-b8cc-48a3ca03472e' },
      { ...frank, id: 'ae087a60-e323-4f78-b353-bf23779e7cea' },
    ];
    await begin({ users: [...users, ...known] });
    // Frank had been changed before the recording began; here the row is new.
    const times = (difference: string): boolean => difference.includes('$.data[4].updated_at: ');
    const differences = await playAll(exchanges('users'), async () => {});
    expect(differences.filter((difference) => !times(difference))).toEqual([]);
  });

  test('port_rules_unsupported is answered as by a server whose kernel has no port rules', async () => {
    await begin({ portRules: false });
    expect(await playAll(exchanges('port_rules_unsupported'), async () => {})).toEqual([]);
  });
});

describe('rule_update', () => {
  test('a lone rule is updated from the recorded state to the recorded state', async () => {
    await begin();
    const differences: string[] = [];
    for (const item of exchanges('rule_update')) {
      if (!isObject(item.before)) continue;
      await empty();
      const { id, inserted_at: _, updated_at: __, ...rule } = item.before;
      await replay.call('POST', '/v0/rules', { rule });
      replay.mapping.bind(String(id), simulator.rules()[0]?.id ?? '');
      const found = [
        ...replay.mapping.differences(item.before, simulator.rules()[0], 'before'),
        ...(await replay.play(item)),
        ...replay.mapping.differences(item.after, simulator.rules()[0], 'after'),
      ];
      differences.push(...found.map((difference) => `${item.step}: ${difference}`));
    }
    expect(differences).toEqual([]);
  });

  test('requests that are no proper update, and updates onto other rules', async () => {
    await begin();
    const alice = { user_id: USERS.alice };
    const ports = { port_type: 'tcp', port_range: '80 - 90' } as const;
    const tables: Readonly<Record<string, readonly RuleSeed[]>> = {
      patch_missing_wrapper: [
        { id: '74199dd5-0336-4299-961a-e491628879f8', action: 'accept', destination: '10.0.0.0/8', ...ports, ...alice },
      ],
      patch_onto_other: [
        { id: '0188b7a4-6954-4410-91ce-487b4f697931', destination: '10.1.0.0/16' },
        { id: 'b638c599-e723-46ed-a36d-c95a8c4e3f90', destination: '10.2.0.0/16' },
      ],
      flip_action_onto_twin: [
        { id: '5b0211f3-05e2-43d9-9da7-bf05f719449a', action: 'accept', destination: '10.0.0.0/8' },
        { destination: '10.0.0.0/8' },
      ],
      null_user_onto_global_twin: [
        { id: 'e3c22c9f-d2f9-4955-80e5-eecb53a35c79', destination: '10.0.0.0/8', ...alice },
        { destination: '10.0.0.0/8' },
      ],
      null_ports_onto_noport_twin: [
        { id: '7bc07949-4217-4f5b-a84c-5eef995600ca', destination: '10.0.0.0/8', ...ports },
        { destination: '10.0.0.0/8' },
      ],
    };
    const items = exchanges('rule_update').filter((item) => item.before === undefined);
    const differences = await playAll(items, async (item) => {
      const table = tables[item.step];
      if (table === undefined) return;
      await empty();
      simulator.seed(table);
    });
    expect(differences).toEqual([]);
  });
});

describe('recordings in which every create starts from an empty table', () => {
  for (const name of ['action', 'body', 'destination', 'ports', 'user_id']) {
    test(`rule_create_${name}: answers and what is read back`, async () => {
      await begin();
      const differences: string[] = [];
      for (const item of exchanges(`rule_create_${name}`)) {
        await empty();
        const found = await replay.play(item);
        const [rule] = simulator.rules();
        if (item.readback !== undefined && rule !== undefined) {
          const { id: _, ...stored } = rule;
          found.push(...replay.mapping.differences(item.readback, stored, 'readback'));
        }
        differences.push(...found.map((difference) => `${item.step}: ${difference}`));
      }
      expect(differences).toEqual([]);
    });
  }

  test('body_size_limit: what is too large, and how it is refused', async () => {
    await begin();
    const items = exchanges('body_size_limit');
    expect(await playAll(items, (item) => (item.response.status === 201 ? empty() : Promise.resolve()))).toEqual([]);
  });

  test('rule_overlap: which pairs of rules can stand beside each other', async () => {
    await begin();
    const items = exchanges('rule_overlap');
    expect(await playAll(items, (item) => (item.step.endsWith('__first') ? empty() : Promise.resolve()))).toEqual([]);
  });
});
