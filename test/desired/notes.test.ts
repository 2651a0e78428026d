import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../src/cli/command.ts';
import { readRequiredNotes } from '../../src/cli/plan-settings.ts';
import { readSettingsFile } from '../../src/cli/settings-file.ts';
import { printState } from '../../src/desired/print.ts';
import type { Problem } from '../../src/model/problem.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { planInput } from '../plan/support.ts';
import { build, codes } from './helpers.ts';

const set = `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: lab, owner: lab-team, ticket: NET-1}
spec:
  defaults: {action: accept}
  rules:
    - {name: one, destination: 10.1.0.0/16}
    - {name: two, owner: alice, destinations: [10.2.0.0/16, 10.3.0.0/16]}
`;
const bare = `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: bare}
spec:
  rules:
    - {name: one, action: drop, destinations: [10.4.0.0/16, 10.5.0.0/16]}
    - {name: two, action: drop, destination: 10.6.0.0/16, owner: bob}
`;

describe('who answers for a rule', () => {
  it('is what the rule says, else what its set says, for each rule that it stands for', () => {
    const { state } = build({ 'lab.yaml': set });
    expect(state?.rules.map(({ name, owner, ticket }) => `${name} ${owner} ${ticket}`)).toEqual([
      'lab/one lab-team NET-1',
      'lab/two/10.2.0.0-16 alice NET-1',
      'lab/two/10.3.0.0-16 alice NET-1',
    ]);
  });

  it('changes no plan, and stays through `build`', () => {
    const { state } = build({ 'lab.yaml': set });
    const without = build({
      'lab.yaml': set.replace(', owner: lab-team, ticket: NET-1', '').replace('owner: alice, ', ''),
    });
    expect(without.state?.digest).toBe(state?.digest);
    const printed = [...printState(state as NonNullable<typeof state>, null)].join('');
    expect(build({ 'all.yaml': printed }).state?.rules.map(({ owner, ticket }) => [owner, ticket])).toEqual(
      state?.rules.map(({ owner, ticket }) => [owner, ticket]),
    );
  });

  it('is in a plan beside the rule, also of one that the base named and that goes', () => {
    const { state } = build({ 'lab.yaml': set });
    const [first, second] = state?.rules ?? [];
    if (first === undefined || second === undefined) throw new Error('two rules');
    const live = [
      { id: 'l1', rule: second.rule, destinationText: second.rule.destination.text, insertedAt: '', updatedAt: '' },
    ];
    const plan = makePlan(planInput({ desired: [first], live, base: [second] }));
    expect(plan.changes.map(({ action, ...change }) => [action, 'owner' in change ? change.owner : null])).toEqual([
      ['create', 'lab-team'],
      ['delete', 'alice'],
    ]);
  });

  it.each([
    'owner: ""',
    'owner: " "',
    'owner: "\\u00a0\\t"',
    'owner: "\\u200b"',
    'owner: "\\u2060 \\u00ad"',
    'owner: "\\u3164"',
    'ticket: "\\u115f\\u1160 \\uffa0"',
    'ticket: "\\u2800"',
    `owner: ${'x'.repeat(201)}`,
    'owner: [a]',
  ])('must be a text of some length: %s', (field) => {
    const { problems, state } = build({ 'lab.yaml': set.replace('owner: alice', field) });
    expect(state).toBeNull();
    expect(problems[0]?.place).toMatchObject({ file: 'lab.yaml', line: 8 });
  });
});

describe('`require` in the settings', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'reconcile-notes-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function required(text: string) {
    const path = join(folder, 'settings.yaml');
    writeFileSync(path, text);
    return readRequiredNotes({ file: readSettingsFile(path) } as Parameters<typeof readRequiredNotes>[0]);
  }

  it('makes each written rule without the note an error at its place', () => {
    const { problems, state } = build(
      { 'lab.yaml': set, 'bare.yaml': bare },
      { require: required('require: [owner, ticket]') },
    );
    expect(state).toBeNull();
    expect(
      problems.map(({ code, place, summary }) => [code, place?.file, place?.line, summary.match(/no `(\w+)`/)?.[1]]),
    ).toEqual([
      ['note-missing', 'bare.yaml', 6, 'owner'],
      ['note-missing', 'bare.yaml', 6, 'ticket'],
      ['note-missing', 'bare.yaml', 7, 'ticket'],
    ]);
  });

  it('asks for the end of accept rules only: that of a drop opens what it closed', () => {
    const drop = bare.replace('{name: one, action: drop', '{name: one, action: accept');
    const { problems } = build({ 'bare.yaml': drop }, { require: required('require: [expires]') });
    expect(problems.map(({ code, place }) => [code, place?.line])).toEqual([['note-missing', 6]]);
    expect(problems[0]?.hint).toContain('drops too');
  });

  it('says nothing of a missing end where the end that is written cannot be read', () => {
    const wrong = bare.replace('action: drop, destination: 10', 'action: accept, expires: soon, destination: 10');
    expect(codes(build({ 'bare.yaml': wrong }, { require: required('require: [expires]') }))).toEqual([
      expect.stringMatching(/^7:.* not-a-time$/),
    ]);
  });

  const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
  const ofAlice = bare.replace('action: drop', `user_id: ${alice}, action: drop`);

  it('asks only for what bears on its networks, or on its users', () => {
    const asked = required(
      `require:\n  - {note: owner, networks: [10.4.0.0/16]}\n  - {note: ticket, users: [${alice}]}\n`,
    );
    expect(codes(build({ 'bare.yaml': ofAlice }, { require: asked.slice(0, 1) }))).toEqual(['6:95 note-missing']);
    expect(codes(build({ 'bare.yaml': ofAlice.replace('10.4', '10.9') }, { require: asked.slice(0, 1) }))).toEqual([]);
    expect(codes(build({ 'bare.yaml': ofAlice }, { require: asked.slice(1) }))).toEqual([
      '6:108 note-missing',
      '7:46 note-missing',
    ]);
    const another = ofAlice.replace(alice, alice.replace('a1', 'b1'));
    expect(codes(build({ 'bare.yaml': another }, { require: asked.slice(1) }))).toEqual(['7:46 note-missing']);
    const nobody = required('require: [{note: ticket, users: [global]}]');
    expect(codes(build({ 'bare.yaml': ofAlice }, { require: nobody }))).toEqual(['7:46 note-missing']);
  });

  it.each([
    ['8.0.0.0/6', 1],
    ['10.0.0.0/8', 1],
    ['10.1.2.3', 1],
    ['0.0.0.0/0', 1],
    ['12.0.0.0/8', 0],
    ['::/0', 0],
  ])('is not evaded by a rule for a wider network, or for everybody: %s', (destination, missing) => {
    const open = `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: open}\nspec: {action: accept, destination: '${destination}'}\n`;
    for (const more of ['', `, users: [${alice}]`]) {
      const asked = required(`require: [{note: owner, networks: [10.0.0.0/8]${more}}]`);
      expect(codes(build({ 'open.yaml': open }, { require: asked }))).toHaveLength(missing);
    }
  });

  it.each([
    ['require: [expiry]', '1:11', '`require.0`'],
    ['require: owner', '1:1', '`require`'],
    ['require: [owner, {note: owner, networks: [10.0.0.0/8, 10.0.0.1/8]}]', '1:55', '`require.1.networks.1`: write a'],
    ['require: [{note: owner, networks: [mars]}]', '1:36', '`require.0.networks.0`: write an IP address'],
    ['require: [{note: owner, networks: []}]', '1:25', '`require.0.networks`: write at least one'],
    ['require: [{note: owner, users: []}]', '1:25', '`require.0.users`: write at least one'],
    ['scope: {networks: [10.0.0.1/8]}', '1:20', '`scope.networks.0`: write a network without host bits'],
  ])('refuses %s at its place', (text, place, says) => {
    let found: readonly Problem[] = [];
    try {
      required(text);
    } catch (error) {
      found = error instanceof Failure ? error.problems : [];
    }
    expect(found.map((one) => `${one.place?.line}:${one.place?.column}`)).toEqual([place]);
    expect(found[0]?.summary).toContain(says);
  });
});
