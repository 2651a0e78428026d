import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { castString } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { isMap, type JsonTerm } from '../http/json.ts';
import { type Casting, type Field, isSameValue, replacedWhole } from './fields.ts';

/** The logo: null takes it away, and none is shown as `{}`. */
export const logoField: Field = {
  ...replacedWhole,
  cast: (term, stored) => {
    const cast = castLogo(term);
    return cast.changes ? { ...cast, changes: !isSameValue(cast.value, {}) || !isSameValue(stored, {}) } : cast;
  },
};

function castLogo(term: JsonTerm): Casting {
  if (term === null) return { value: {}, changes: true };
  if (Array.isArray(term) && term.length === 0) return { value: { data: null, type: null, url: null }, changes: true };
  if (!isMap(term)) return { errors: ['is invalid'], changes: false };
  const logo: Record<string, string | null> = {};
  const errors: Record<string, string[]> = {};
  for (const name of ['data', 'file', 'type', 'url']) {
    const sent = term.get(name);
    const cast = sent === undefined || sent === '' ? { value: null } : castString(sent);
    if ('message' in cast) errors[name] = [cast.message];
    else logo[name] = cast.value;
  }
  const { file, ...shown } = logo;
  if (typeof file === 'string') Object.assign(errors, checkFile(file));
  return Object.keys(errors).length > 0 ? { errors, changes: false } : { value: shown, changes: true };
}

const logoExtensions = ['.jpg', '.jpeg', '.png', '.gif', '.webp', '.avif', '.svg', '.tiff'];

/** The server copies the file, which raises when it is not there. */
function checkFile(file: string): Record<string, string[]> {
  if (!existsSync(file)) throw new ServerCrash('no such file');
  const extension = extname(file);
  if (logoExtensions.includes(extension)) return {};
  const expected = logoExtensions.map((name) => `"${name}"`).join(', ');
  return { file: [`file extension is not supported, got ${extension}, expected one of [${expected}]`] };
}
