import { createHash } from 'node:crypto';

/** The revision of content that has no other: SHA-256 over the paths and hashes of its files, in their order. */
export function digestFiles(files: readonly { readonly path: string; readonly hash: string }[]): string {
  const digest = createHash('sha256');
  for (const { path, hash } of files) digest.update(`${path}\0${hash}\n`);
  return `sha256:${digest.digest('hex')}`;
}
