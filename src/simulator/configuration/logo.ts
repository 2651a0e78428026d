import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { castString } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { isMap, type JsonTerm } from '../http/json.ts';
import type { FieldErrors } from '../http/response.ts';

const logoExtensions = ['.jpg', '.jpeg', '.png', '.gif', '.webp', '.avif', '.svg', '.tiff'];

/** Reads the sent logo, which replaces the stored one as a whole; null takes it away, and none is shown as `{}`. */
export function castLogo(term: JsonTerm): { readonly value: object } | { readonly errors: FieldErrors | string[] } {
  if (term === null) return { value: {} };
  if (Array.isArray(term) && term.length === 0) return { value: { data: null, type: null, url: null } };
  if (!isMap(term)) return { errors: ['is invalid'] };
  const logo: Record<'data' | 'file' | 'type' | 'url', string | null> = {
    data: null,
    file: null,
    type: null,
    url: null,
  };
  const errors: Record<string, string[]> = {};
  for (const name of ['data', 'file', 'type', 'url'] as const) {
    const sent = term.get(name);
    const cast = sent === undefined || sent === '' ? { value: null } : castString(sent);
    if ('message' in cast) errors[name] = [cast.message];
    else logo[name] = cast.value;
  }
  const { file, ...shown } = logo;
  if (file !== null) Object.assign(errors, checkFile(file));
  return Object.keys(errors).length > 0 ? { errors } : { value: shown };
}

/** The server copies the file, which raises when it is not there. */
function checkFile(file: string): Record<string, string[]> {
  if (!existsSync(file)) throw new ServerCrash('no such file');
  const extension = extname(file);
  if (logoExtensions.includes(extension)) return {};
  const expected = logoExtensions.map((name) => `"${name}"`).join(', ');
  return { file: [`file extension is not supported, got ${extension}, expected one of [${expected}]`] };
}
