import { ServerCrash } from './http/json.ts';

/** 8-4-4-4-12 bytes of whatever: the server looks no closer before it asks the database. */
export function isUuidShaped(text: string): boolean {
  const bytes = Buffer.from(text, 'utf8');
  return bytes.length === 36 && [8, 13, 18, 23].every((index) => bytes[index] === 45);
}

export function isUuidText(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

/** The id as the database keeps it; raises ServerCrash for what is no UUID. */
export function readUuid(text: string): string {
  if (!isUuidText(text)) throw new ServerCrash('not a UUID');
  return text.toLowerCase();
}
