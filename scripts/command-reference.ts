import * as z from 'zod';
import type { CommandSpec } from '../src/cli/command.ts';
import { commands } from '../src/cli/commands.ts';
import {
  findPlaceholder,
  formatFlag,
  isSetting,
  nameVariable,
  type OptionName,
  type OptionSpec,
  options,
} from '../src/cli/options.ts';
import { nestedSchema } from '../src/cli/settings-schema.ts';

/** The tables of docs/reference/commands.md, made from the tables that the command line itself is made from. */
export function referenceTables(): ReadonlyMap<string, string> {
  return new Map([
    ['commands', commandTable()],
    ['options', optionTable()],
    ['members', memberTable()],
  ]);
}

/** Replaces what stands between `<!-- NAME -->` and `<!-- /NAME -->`. */
export function withReferenceTables(text: string): string {
  let result = text;
  for (const [name, table] of referenceTables()) {
    const pattern = new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*?(<!-- /${name} -->)`);
    result = result.replace(pattern, (_, open: string, close: string) => `${open}\n${table}\n${close}`);
  }
  return result;
}

function commandTable(): string {
  const rows = commands.map((spec) => {
    const flags = spec.options.map((name) => `\`${formatFlag(name)}\``).join(' ');
    return `| \`${usage(spec).replaceAll('|', '\\|')}\` | ${spec.summary} | ${flags === '' ? '' : flags} |`;
  });
  return ['| command | what it does | its options |', '|---|---|---|', ...rows, ''].join('\n');
}

function usage({ name, operands }: CommandSpec): string {
  return ['reconcile', name, operands].filter((part) => part !== '').join(' ');
}

function optionTable(): string {
  const names = Object.keys(options) as OptionName[];
  const rows = names.map((name) => {
    const spec: OptionSpec = options[name];
    const setting = !isSetting(name) ? '' : `\`${nameVariable(name)}\`<br>\`${name}\``;
    return `| \`${formatFlag(name)}${placeholderOf(spec)}\` | ${(spec.kind === 'switch' && spec.default ? `no ${spec.help}` : spec.help).replaceAll('|', '\\|')} | ${defaultOf(spec)} | ${setting} |`;
  });
  return ['| flag | what it does | default | variable, setting |', '|---|---|---|---|', ...rows, ''].join('\n');
}

function placeholderOf(spec: OptionSpec): string {
  if (spec.kind === 'switch') return '';
  return ` ${findPlaceholder(spec).replaceAll('|', '\\|')}${spec.kind === 'list' || spec.kind === 'paths' ? ' …' : ''}`;
}

function defaultOf(spec: OptionSpec): string {
  if (!('default' in spec) || spec.default === undefined) return '';
  if (spec.kind === 'switch') return 'on';
  return spec.kind === 'duration' ? `\`${durationText(spec.default)}\`` : `\`${spec.default}\``;
}

function durationText(ms: number | undefined): string {
  if (ms === undefined) return '';
  return ms % 60_000 === 0 ? `${ms / 60_000}m` : ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** The part of JSON Schema that these settings use. */
interface Schema {
  readonly const?: string;
  readonly description?: string;
  readonly items?: { readonly oneOf: readonly Schema[] };
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

/** What the settings hold that are an object, or a list of objects of several types. */
function memberTable(): string {
  const { properties = {} } = z.toJSONSchema(nestedSchema, { io: 'input' }) as Schema;
  const rows = ['limits', 'notify', 'kubernetes'].flatMap((name) => {
    const { items, ...itself } = properties[name] ?? {};
    return (items?.oneOf ?? [itself]).flatMap(({ properties: members = {}, required = [] }) => {
      const type = members['type']?.const;
      const of = `\`${name}${type === undefined ? '' : `: {type: ${type}}`}\``;
      const shown = Object.entries(members).filter(([member]) => member !== 'type');
      return shown.map(([member, { description = 'a text' }]) => {
        return `| ${of} | \`${member}\` | ${description}${required.includes(member) ? '; required' : ''} |`;
      });
    });
  });
  return ['| setting | member | what it must be |', '|---|---|---|', ...rows, ''].join('\n');
}
