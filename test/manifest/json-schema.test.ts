import { readdirSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { allSchemaFiles } from '../../scripts/schema-files.ts';
import { makeJsonSchema, makeManifestSchema } from '../../src/manifest/json-schema.ts';
import { kinds } from '../../src/manifest/manifest.ts';
import { build, document } from '../desired/helpers.ts';

const folder = new URL('../../schemas/', import.meta.url);

describe('the JSON Schemas', () => {
  it('are the ones that the sources give (run `npm run schemas`)', () => {
    for (const [name, text] of allSchemaFiles()) expect(readFileSync(new URL(name, folder), 'utf8'), name).toBe(text);
    expect(readdirSync(folder).sort()).toEqual([...allSchemaFiles().keys()].sort());
  });

  const ajv = new Ajv2020({ strict: true });
  for (const [name, text] of allSchemaFiles()) ajv.addSchema(JSON.parse(text), name);
  const isManifest = (text: string): boolean =>
    parseAllDocuments(text).every((one) => ajv.validate('manifest.json', one.toJS()));

  it('are taken by a strict validator, which refuses what it cannot be sure of', () => {
    for (const name of allSchemaFiles().keys()) expect(ajv.getSchema(name), name).toBeTypeOf('function');
  });

  it('describe any manifest by its kind', () => {
    expect(
      isManifest(document('Rule', 'web', '{action: accept, destination: 10.0.0.0/8, port_range: 443, port_type: tcp}')),
    ).toBe(true);
    expect(isManifest(document('Rule', 'web', '{action: accept, destinaton: 10.0.0.0/8}'))).toBe(false);
    expect(
      isManifest(
        document(
          'RuleSet',
          'web',
          '{rules: [{name: a, action: drop, destinations: [10.0.0.1, network: n], users: [a, group: b]}]}',
        ),
      ),
    ).toBe(true);
    expect(isManifest(document('Ruel', 'web', '{}'))).toBe(false);
  });

  it('hold for the examples', () => {
    const examples = new URL('../../examples/', import.meta.url);
    const files = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(
      (name) => /\.ya?ml$/.test(name) && !/values|^operator/.test(name),
    );
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) {
      expect(isManifest(readFileSync(new URL(file, examples), 'utf8')), file).toBe(true);
    }
  });

  it('have an id, and a description and an example for every field', () => {
    const bare: string[] = [];
    const visit = (schema: unknown, path: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const { properties, items, anyOf, additionalProperties } = schema as Record<string, object | undefined>;
      for (const [name, field] of Object.entries(properties ?? {}) as [string, Record<string, unknown>][]) {
        if (typeof field['description'] !== 'string' || !Array.isArray(field['examples'])) bare.push(`${path}.${name}`);
        visit(field, `${path}.${name}`);
      }
      for (const part of [items, additionalProperties, ...Object.values(anyOf ?? {})]) visit(part, path);
    };
    for (const kind of kinds) {
      const schema = makeJsonSchema(kind);
      expect(schema['$id']).toBe(`urn:firezone-reconcile:${kind}`);
      visit(schema, kind);
    }
    expect(bare).toEqual([]);
  });

  it('stand in one piece, which refers to nothing else', () => {
    const refs = [...JSON.stringify(makeManifestSchema()).matchAll(/"\$ref":"([^"]*)"/g)].map(([, ref]) => ref);
    expect(refs).toEqual(kinds.map((kind) => `#/$defs/${kind}`));
  });

  const rule = (fields: string): string =>
    document('Rule', 'web', `{action: accept, destination: 10.0.0.1, ${fields}}`);
  const set = (defaults: string, fields: string): string =>
    document('RuleSet', 'web', `{defaults: {${defaults}}, rules: [{name: a, ${fields}}]}`);
  const to = (destination: string): string => document('Rule', 'web', `{action: drop, destination: '${destination}'}`);
  it.each([
    ...['10.0.0.0/255.0.0.0', 'any', 'db.example.com', '10.0.0.1-10.0.0.9', '10.010.0.1', '10/8', '10.0.0.0/33'].map(
      to,
    ),
    ...['2001:db8::/129', 'fe80::1%eth0', '', '10.0.0.1, 10.0.0.2'].map(to),
    ...[
      'port_type: tcp',
      'port_range: 443',
      'port_type: icmp, port_range: 443',
      'port_type: tcp, port_range: https',
    ].map(rule),
    ...['port_type: tcp, port_range: "80,443"', 'port_type: tcp, port_range: 70000', 'user: a, group: b'].map(rule),
    set('', 'action: drop, destination: 10.0.0.1, port_range: 443'),
    set('', 'action: drop, destination: 10.0.0.1, destinations: [10.0.0.2]'),
    set('', 'destination: 10.0.0.1'),
    set('action: drop', 'port_type: tcp, port_range: 443'),
    set('action: drop', 'destination: 10.0.0.1, user: a, users: [b]'),
    document('Network', 'n', '{cidrs: [staging]}'),
  ])('refuse what `validate` refuses: %s', (text) => {
    expect(build({ 'a.yaml': text }).state).toBeNull();
    expect(isManifest(text)).toBe(false);
  });

  it.each([
    ...['10.0.0.0/8', ' 10.0.0.1 ', '::', '2001:DB8::/32', '::ffff:10.0.0.1', '0.0.0.0/0'].map(to),
    ...[
      'port_type: tcp, port_range: 443',
      'port_type: udp, port_range: 80 - 90',
      'port_range: null',
      'port_type: null',
    ].map(rule),
    set('action: drop, port_type: tcp', 'destination: 10.0.0.1, port_range: [80, 8000-8010]'),
    set('action: drop, port_type: tcp, port_range: 443', 'destination: 10.0.0.1'),
    set('destinations: [10.0.0.1, 10.0.0.2]', 'action: drop'),
    set('action: drop', 'destination: 10.0.0.1, port_range: null'),
    set('action: drop, user: 5f6c2f5e-6a8e-4d0c-9b7e-3d1c6a0f2b11', 'destination: 10.0.0.1, user_id: null'),
  ])('take what `validate` takes: %s', (text) => {
    expect(build({ 'a.yaml': text }).problems.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(isManifest(text)).toBe(true);
  });

  it('take a reference to a value wherever a text may stand', () => {
    const value = (name: string): string => `\${${name}}`;
    expect(isManifest(to(`${value('net')}/24`))).toBe(true);
    expect(isManifest(rule(`port_type: tcp, port_range: '${value('port')}'`))).toBe(true);
  });

  it('refuse no manifest that `validate` takes, whatever its shape', () => {
    const field = fc.constantFrom(
      'action: drop',
      'destination: 10.0.0.1',
      'destination: {network: n}',
      'destinations: [10.0.0.2, 10.0.0.4/30]',
      'port_type: tcp',
      'port_type: null',
      'port_range: 443',
      'port_range: [1-5, 9]',
      'port_range: null',
      'user_id: null',
      'user: 5f6c2f5e-6a8e-4d0c-9b7e-3d1c6a0f2b11',
      'users: [5f6c2f5e-6a8e-4d0c-9b7e-3d1c6a0f2b11]',
    );
    const fields = fc
      .uniqueArray(field, { maxLength: 6, selector: (one) => one.split(':')[0] })
      .map((all) => all.join(', '));
    const network = document('Network', 'n', '{cidrs: [10.9.0.0/16]}');
    fc.assert(
      fc.property(fields, fields, (defaults, own) => {
        const text = set(defaults, own);
        if (build({ 'a.yaml': text, 'n.yaml': network }).state !== null) expect(isManifest(text), text).toBe(true);
      }),
      { numRuns: 400 },
    );
  });
});
