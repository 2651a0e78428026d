import { closeSync, constants, fstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { DesiredContext } from '../desired/context.ts';
import type { Place } from '../model/problem.ts';
import { attempt, fail, ok, type Result } from '../model/result.ts';
import { encrypted, Secret, stillEncrypted } from '../model/secret.ts';

/** What secret references may reach. Whoever writes manifests must not be able to publish the process's own secrets. */
export interface SecretAccess {
  /** The manifest directory; null when manifests do not come from a directory. */
  readonly root: string | null;
  /** More directories below which files may be read, from the operator's settings. */
  readonly dirs: readonly string[];
  /** Names of environment variables that may be read, beside `RECONCILE_SECRET_…`. */
  readonly envNames: readonly string[];
  /** Never read, wherever they lie and by whatever link: token, key and settings files. */
  readonly forbiddenFiles: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Most bytes of a secret file; SAML metadata has about 10,000. */
const mostBytes = 1_000_000;

/** Directories of the kernel: what lies there is never a secret file (`/proc/self/environ` is the process's own). */
const kernelDirectories = ['/proc', '/sys', '/dev'];

/** Makes the resolver that `buildDesired` asks. Its errors are sentences without the value. */
export function createSecretResolver(access: SecretAccess): DesiredContext['resolveSecret'] {
  return (reference, place) =>
    'env' in reference ? fromEnvironment(access, reference.env) : fromFile(access, reference.file, place);
}

function fromEnvironment(access: SecretAccess, name: string): Result<Secret, string> {
  const allowed = /^RECONCILE_SECRET_[A-Za-z0-9_]+$/.test(name) || access.envNames.includes(name);
  if (!allowed || name === 'RECONCILE_TOKEN') {
    return fail('Manifests may not read this environment variable.');
  }
  const value = access.environment[name];
  return ok(value === undefined ? Secret.unknown() : Secret.of(value));
}

/** A relative path is relative to the manifest's own directory. */
function fromFile(access: SecretAccess, file: string, place: Place): Result<Secret, string> {
  if (file === '' || file.includes('\0')) return fail('This is no path of a file.');
  if (!path.isAbsolute(file) && access.root === null) {
    return fail('The commit holds no plain file at this path below the manifests (no link, and none encrypted).');
  }
  const written = path.resolve(access.root ?? '/', path.dirname(place.file), file);
  if (!isAllowed(access, written)) return fail(outside);
  const real = resolveLinks(written);
  if (real === null) return ok(Secret.unknown());
  if (!isAllowed(access, real)) return fail(outside);
  return readSecretFile(access, real);
}

const outside =
  'This file is outside the manifest directory, and not below a directory of `secrets.dirs` in the settings.';

function isAllowed(access: SecretAccess, file: string): boolean {
  if (kernelDirectories.some((directory) => isBelow(directory, file))) return false;
  const directories = [...(access.root === null ? [] : [access.root]), ...access.dirs];
  return directories.some((directory) => {
    const absolute = path.resolve(directory);
    return isBelow(absolute, file) || isBelow(resolveLinks(absolute) ?? absolute, file);
  });
}

/** Whether the file lies below the directory, as both are written. */
export function isBelow(directory: string, file: string): boolean {
  const relative = path.relative(directory, file);
  return relative !== '' && relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);
}

/** The path without links; null where there is nothing to read. */
export function resolveLinks(file: string): string | null {
  // Missing, unreadable or a loop of links: in each case there is nothing to read here.
  return attempt(() => realpathSync(file), null);
}

function readSecretFile(access: SecretAccess, file: string): Result<Secret, string> {
  // Non-blocking: opening a FIFO must not hang. No following: the path was resolved and judged already.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
  const descriptor = attempt(() => openSync(file, flags), null);
  if (descriptor === null) return ok(Secret.unknown());
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) return fail('This is not a regular file.');
    if (status.size > mostBytes) return fail(`This file is larger than ${mostBytes} bytes.`);
    if (isForbidden(access, status)) return fail('This file is one of the program’s own (token, key or settings).');
    const bytes = Buffer.alloc(mostBytes + 1);
    const length = readSync(descriptor, bytes, 0, bytes.length, 0);
    if (encrypted.test(bytes.toString('latin1', 0, 60))) return fail(stillEncrypted);
    return ok(Secret.of(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, length))));
  } catch {
    return fail('This file is not UTF-8 text, or cannot be read.');
  } finally {
    closeSync(descriptor);
  }
}

/** By device and inode, so that no link, symbolic or hard, gets around it. */
function isForbidden(access: SecretAccess, status: { readonly dev: number; readonly ino: number }): boolean {
  return access.forbiddenFiles.some((file) => {
    const forbidden = statSync(file, { throwIfNoEntry: false });
    return forbidden !== undefined && forbidden.dev === status.dev && forbidden.ino === status.ino;
  });
}
