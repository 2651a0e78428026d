import { schemaFiles } from '../src/manifest/json-schema.ts';

/** Every JSON Schema of the project: file name below schemas/ to text. */
export function allSchemaFiles(): ReadonlyMap<string, string> {
  return new Map([...schemaFiles()]);
}
