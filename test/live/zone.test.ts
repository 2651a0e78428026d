import { expect, test } from 'vitest';
import { decodeLiveRules, removeZone } from '../../src/live/live-rules.ts';
import { startSimulator } from '../../src/simulator/server.ts';
import { desiredState, rule, testRun, token } from '../apply/support.ts';

test('a zone that is a number is the second group of a link-local address, and no other zone can be read', () => {
  expect(
    ['fe80::1%1', 'fe80::1%01', 'FE80::%65535/64', 'ff02::2%16', 'fe80::a:b:1.2.3.4%2/128', 'fe80::1%0'].map(
      removeZone,
    ),
  ).toEqual(['fe80:1::1', 'fe80:1::1', 'fe80:ffff::/64', 'ff02:10::2', 'fe80:2::a:b:102:304/128', 'fe80::1']);
  for (const text of [
    'fe80::1%eth0',
    'fe80:1::1%1',
    'fe80::1%65536',
    'fe80::1%1%1',
    'fe80::1%',
    'fe81::1%1',
    '2001:db8::1%1',
    '10.0.0.1%1',
    'fe80::1%1/',
    'fe80::zz%1',
  ]) {
    expect([text, removeZone(text)]).toEqual([text, null]);
  }
});

test('a rule with a zone that cannot be read ends the pass with its id and the reason', () => {
  const id = '11111111-1111-4111-8111-111111111111';
  const times = { inserted_at: '2024-01-01T00:00:00.000000Z', updated_at: '2024-01-01T00:00:00.000000Z' };
  const item = { id, action: 'drop', destination: 'fe80::1%eth0', port_range: null, port_type: null, user_id: null };
  const decoded = decodeLiveRules({ data: [{ ...item, ...times }] });
  expect(decoded).toEqual({ ok: false, error: `live rule ${id}: its destination cannot be read (zone)` });
});

test('a server that prints such an address with a zone is brought to the desired state and stays there', async () => {
  const simulator = await startSimulator({ token });
  try {
    simulator.seed([{ action: 'drop', destination: 'fe80:7::/64' }]);
    expect(simulator.rules().map(({ destination }) => destination)).toEqual(['fe80::%07/64']);
    const run = testRun(simulator.url, desiredState([rule('drop fe80:1::1'), rule('drop fe80:7::/64')]));
    const plan = await run.plan();
    expect(plan.summary).toMatchObject({ create: 1, delete: 0, keep: 1 });
    expect((await run.apply(plan)).end).toBe('converged');
    expect((await run.plan()).steps).toEqual([]);
    await run.close();
  } finally {
    await simulator.close();
  }
});
