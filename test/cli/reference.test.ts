import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { withReferenceTables } from '../../scripts/command-reference.ts';
import { parseArguments } from '../../src/cli/arguments.ts';
import { exitCodes, listOptions } from '../../src/cli/command.ts';
import { commands } from '../../src/cli/commands.ts';
import { formatFlag, type OptionName, type OptionSpec, options } from '../../src/cli/options.ts';
import { settle } from '../../src/cli/settings.ts';

const reference = readFileSync(new URL('../../docs/reference/commands.md', import.meta.url), 'utf8');
const names = Object.keys(options) as OptionName[];

const texts = ['some-value', '3', '2d', 'NAME=provider@host', '0'.repeat(32)];

/** A value that the option takes. */
function example(spec: OptionSpec): readonly string[] {
  switch (spec.kind) {
    case 'switch':
      return [];
    case 'choice':
      return [spec.choices[0] ?? ''];
    case 'count':
      return [String(spec.min)];
    case 'duration':
      return ['15s'];
    default:
      return texts
        .concat('choices' in spec ? (spec.choices ?? []) : [])
        .filter((text) => fits(spec, text))
        .slice(0, 1);
  }
}

function fits(spec: OptionSpec, text: string): boolean {
  return spec.shape?.[0].test(text) ?? (!('choices' in spec) || spec.choices?.includes(text) === true);
}

describe('docs/reference/commands.md', () => {
  it('has current tables (else: npm run schemas)', () => {
    expect(withReferenceTables(reference)).toBe(reference);
  });

  it('explains every exit code, and no other', () => {
    const codes = [...reference.matchAll(/^\| ([0-9]) \|/gm)].map(([, code]) => Number(code)).sort();
    expect(codes).toEqual(Object.values(exitCodes).sort());
  });

  it('names every option that a command takes', () => {
    for (const name of names) expect(reference).toContain(formatFlag(name));
  });
});

describe('every flag of every command', () => {
  for (const command of commands) {
    it(`reconcile ${command.name}: is taken and settles`, () => {
      for (const name of listOptions(command)) {
        const spec: OptionSpec = options[name];
        const argv = [command.name, formatFlag(name), ...example(spec)];
        const parsed = parseArguments(argv);
        expect(parsed.kind).toBe('run');
        if (parsed.kind !== 'run') continue;
        const settings = settle({ flags: parsed.flags, env: {}, cwd: '/', file: null });
        // A command that takes `output` from no setting has it as if it was typed.
        expect([...settings.origins.keys()].filter((key) => key === name || key !== 'output')).toEqual([name]);
        const off = spec.kind === 'switch' && spec.default === true;
        if (spec.kind === 'switch') expect(settings[name]).toBe(!off);
      }
    });

    it(`reconcile ${command.name} --help: tells what it does`, () => {
      const parsed = parseArguments([command.name, '--help']);
      expect(parsed).toMatchObject({ kind: 'text', text: expect.stringContaining('Usage: reconcile') });
    });
  }

  it('every option belongs to a command', () => {
    const used = new Set(commands.flatMap((command) => listOptions(command)));
    expect(names.filter((name) => !used.has(name))).toEqual([]);
  });
});
