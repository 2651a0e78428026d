import { readdirSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { allSchemaFiles } from '../../scripts/schema-files.ts';
import { document } from '../desired/helpers.ts';

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
        document('RuleSet', 'web', '{rules: [{name: a, destinations: [10.0.0.1, network: n], users: [a, group: b]}]}'),
      ),
    ).toBe(true);
    expect(isManifest(document('Ruel', 'web', '{}'))).toBe(false);
  });

  it('hold for the examples', () => {
    const examples = new URL('../../examples/', import.meta.url);
    const files = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(
      (name) => /\.ya?ml$/.test(name) && !/values/.test(name),
    );
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) {
      expect(isManifest(readFileSync(new URL(file, examples), 'utf8')), file).toBe(true);
    }
  });
});
