import { createHash } from 'node:crypto';
import { type DesiredContext, defaultLimits } from '../../src/desired/context.ts';
import { assemble } from '../../src/desired/desired.ts';
import { type ParseOptions, parseFiles } from '../../src/desired/parse-files.ts';
import { type KnownUsers, makeKnownUsers } from '../../src/model/known-users.ts';
import { findProfile } from '../../src/model/profile.ts';
import { ok } from '../../src/model/result.ts';
import { Secret } from '../../src/model/secret.ts';
import { wholeScope } from '../../src/model/state.ts';
import type { SourceFile } from '../../src/ports.ts';

/** A source file with this text. */
export function sourceFile(path: string, text: string): SourceFile {
  const bytes = new TextEncoder().encode(text);
  return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
}

/** All that manifests are read with. */
export interface Reading extends DesiredContext, ParseOptions {
  readonly users: KnownUsers | null;
}

/** How manifests are read where no secret is available and no user was looked up. */
export function testContext(changes: Partial<Reading> = {}): Reading {
  return {
    profile: findProfile('firezone-0.7'),
    scope: wholeScope,
    limits: defaultLimits,
    now: Date.UTC(2026, 5, 1),
    values: null,
    resolveSecret: () => ok(Secret.unknown()),
    users: null,
    ...changes,
  };
}

/** The users of the server, by their addresses. */
export function usersNamed(byEmail: Readonly<Record<string, string>>): KnownUsers {
  return makeKnownUsers(Object.entries(byEmail).map(([email, id]) => ({ email, id })));
}

/** Builds from source files. */
export function buildFiles(files: readonly SourceFile[], changes: Partial<Reading> = {}) {
  const reading = testContext(changes);
  return assemble(parseFiles(files, reading), reading.users, reading);
}

/** Builds from texts by path. */
export function build(files: Readonly<Record<string, string>>, changes: Partial<Reading> = {}) {
  return buildFiles(
    Object.entries(files).map(([path, text]) => sourceFile(path, text)),
    changes,
  );
}

/** A document of a kind, with a spec in flow style. */
export function document(kind: string, name: string, spec: string): string {
  return `apiVersion: firezone/v0\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
}

/** `line:column code` of each problem. */
export function codes(desired: ReturnType<typeof build>): readonly string[] {
  return desired.problems.map(({ code, place }) => `${place?.line ?? '-'}:${place?.column ?? '-'} ${code}`);
}
