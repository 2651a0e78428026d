import { createHash } from 'node:crypto';
import { type DesiredContext, defaultLimits } from '../../src/desired/context.ts';
import { buildDesired } from '../../src/desired/desired.ts';
import { profileNamed } from '../../src/model/profile.ts';
import { ok } from '../../src/model/result.ts';
import { Secret } from '../../src/model/secret.ts';
import { wholeScope } from '../../src/model/state.ts';
import type { SourceFile } from '../../src/ports.ts';

/** A source file with this text. */
export function sourceFile(path: string, text: string): SourceFile {
  const bytes = new TextEncoder().encode(text);
  return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
}

/** A context in which no secret is available and no user was looked up. */
export function testContext(changes: Partial<DesiredContext> = {}): DesiredContext {
  return {
    profile: profileNamed('firezone-0.7'),
    scope: wholeScope,
    limits: defaultLimits,
    values: null,
    resolveSecret: () => ok(Secret.unknown()),
    usersByEmail: null,
    ...changes,
  };
}

/** Builds from texts by path. */
export function build(files: Readonly<Record<string, string>>, changes: Partial<DesiredContext> = {}) {
  return buildDesired(
    Object.entries(files).map(([path, text]) => sourceFile(path, text)),
    testContext(changes),
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
