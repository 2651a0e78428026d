import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readRequiredNotes } from '../../src/cli/plan-settings.ts';
import { readSettingsFile } from '../../src/cli/settings-file.ts';
import { printState } from '../../src/desired/print.ts';
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
    const printed = [...printState({ state: state as NonNullable<typeof state>, configuration: null })].join('');
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

  it.each(['owner: ""', `owner: ${'x'.repeat(201)}`, 'owner: [a]'])('must be a text of some length: %s', (field) => {
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

  it('asks only for what lies in its networks, or is for its users', () => {
    const asked = required(
      'require:\n  - {note: owner, networks: [10.4.0.0/16]}\n  - {note: ticket, users: [a1520c4b-adc3-4574-932a-94461cf85c07]}\n',
    );
    expect(codes(build({ 'bare.yaml': bare }, { require: asked }))).toEqual(['6:48 note-missing']);
    expect(codes(build({ 'bare.yaml': bare.replace('10.4', '10.9') }, { require: asked }))).toEqual([]);
  });

  it.each(['require: [expiry]', 'require: owner', 'require: [{note: owner, networks: [10.0.0.1/8]}]'])(
    'refuses %s',
    (text) => {
      expect(() => required(text)).toThrow();
    },
  );
});
