import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createNftEnforcement } from '../../src/adapters/enforcement/nft.ts';
import { listEnforcementProblems, repairTargets } from '../../src/enforcement/report.ts';
import { recorded } from './recorded.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable, pathOf, runIn } from './support/namespace.ts';
import { alice, type KernelServer, startKernelServer, until } from './support/server.ts';

const title = `the kernel's own table${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let netns = '';
  let server: KernelServer;

  beforeEach(async () => {
    netns = addNamespace();
    server = await startKernelServer(netns);
    await server.settled();
  });

  afterEach(async () => {
    await server.simulator.close();
    deleteNamespaces(netns);
  });

  async function create(rule: Readonly<Record<string, unknown>>): Promise<string> {
    const answer = await server.call('POST', '/v0/rules', { rule });
    expect(answer.status).toBe(201);
    return ((await answer.json()) as { data: { id: string } }).data.id;
  }

  it('agrees with the API for every kind of rule, and no longer when an element goes', async () => {
    const rules = recorded('every_kind').live;
    for (const { rule, destinationText } of rules) {
      await create({
        action: rule.action,
        destination: destinationText,
        user_id: rule.userId,
        ...(rule.ports === null
          ? {}
          : { port_type: rule.ports.type, port_range: `${rule.ports.low} - ${rule.ports.high}` }),
      });
    }
    await server.settled();
    const report = await server.check();
    expect(report.findings).toEqual([]);
    expect(report.state).toBe('enforced');
    expect(report.elements).toBe(rules.length);
    runIn(netns, 'nft', 'delete element inet firezone ip6_drop { 2001:db8::1 }');
    expect((await server.check()).findings.map(({ summary }) => summary)).toEqual([
      'the rule drop 2001:db8::1 * is not in the kernel',
    ]);
  });

  it('shows what a PATCH left behind, which the API does not show', async () => {
    const id = await create({ action: 'drop', destination: '10.1.0.0/16', user_id: alice });
    await server.settled();
    await server.call('PATCH', `/v0/rules/${id}`, { rule: { destination: '10.7.0.0/16' } });
    const report = await server.check();
    expect(report.findings.map(({ kind, elements }) => [kind, ...elements])).toEqual([
      ['missing', `drop 10.7.0.0/16 ${alice}`],
      ['stale', `drop 10.1.0.0/16 ${alice}`],
    ]);
    expect(report.findings.every(({ rules }) => rules[0]?.id === id)).toBe(true);
  });

  it('is right again after the crash that deleting a rule changed in place causes', async () => {
    const id = await create({ action: 'drop', destination: '10.1.0.0/16' });
    await create({ action: 'drop', destination: '10.2.0.0/16' });
    await server.settled();
    await server.call('PATCH', `/v0/rules/${id}`, { rule: { destination: '10.7.0.0/16' } });
    expect((await server.check()).counts).toMatchObject({ missing: 1, stale: 1 });
    await server.call('DELETE', `/v0/rules/${id}`);
    await until(() => server.simulator.filter.state().crashes === 1);
    await server.settled();
    expect((await server.check()).state).toBe('enforced');
  });

  it('ends the server after four crashes within five seconds', async () => {
    for (let i = 1; i <= 4; i++) {
      const id = await create({ action: 'drop', destination: `192.0.2.${i}` });
      await server.settled();
      await server.call('PATCH', `/v0/rules/${id}`, { rule: { destination: `198.51.100.${i}` } });
      await server.call('DELETE', `/v0/rules/${id}`);
      if (i < 4) await until(() => server.simulator.filter.state().crashes === i);
      if (i < 4) await server.settled();
    }
    expect(await server.simulator.exited).toContain('crashed 4 times');
  });

  it('says that nothing is filtered when the table is gone', async () => {
    await create({ action: 'drop', destination: '10.1.0.0/16' });
    await server.settled();
    runIn(netns, 'nft', 'delete table inet firezone');
    const report = await server.check();
    expect(report.findings.map(({ kind }) => kind)).toEqual(['table-missing']);
    expect(report.effect.opens.length).toBeGreaterThan(0);
  });

  it('says that nothing is filtered when somebody made the table dormant, whatever nft prints for its flags', async () => {
    await create({ action: 'drop', destination: '10.1.0.0/16' });
    await server.settled();
    runIn(netns, 'nft', 'add table inet firezone { flags dormant; }');
    const asleep = await server.check();
    expect(asleep.findings.map(({ kind }) => kind)).toEqual(['table-missing']);
    expect(asleep.findings[0]?.summary).toContain('dormant');
    expect(asleep.effect.opens.length).toBeGreaterThan(0);
    expect(repairTargets(asleep).size).toBe(0);
    expect(listEnforcementProblems(asleep)[0]?.hint).toContain('nft add table inet firezone');
    runIn(netns, 'nft', 'add table inet firezone');
    expect((await server.check()).state).toBe('enforced');
  });

  it('says what to do when the namespace does not exist', async () => {
    const enforcement = createNftEnforcement({ netns: pathOf('rec-nowhere'), timeoutMs: 5000 });
    const report = await enforcement.check([], new Map(), new AbortController().signal);
    expect(report.state).toBe('unreadable');
    expect(report.message).toContain('check --netns');
  });
});
