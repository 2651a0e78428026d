import { directorySource } from '../adapters/source/directory.ts';
import type { Desired } from '../desired/context.ts';
import { buildDesired } from '../desired/desired.ts';
import type { SourceContent } from '../ports.ts';
import type { Invocation } from './command.ts';
import { exitCodes } from './exit-code.ts';
import { Failure } from './failure.ts';
import { desiredContextOf } from './manifests.ts';
import { limitsOf } from './plan-settings.ts';

/** What the manifests below a path come to, without a server. */
export interface OfflineBuild extends Desired {
  readonly content: SourceContent;
  readonly revision: string;
}

/**
 * Reads and builds the manifests below `path`; needs no server and no token. `usersByEmail`: null leaves addresses
 * unresolved. A source that cannot be read ends the command with exit code 4.
 */
export async function buildOffline(
  invocation: Invocation,
  path: string,
  usersByEmail: ReadonlyMap<string, string> | null = null,
): Promise<OfflineBuild> {
  const source = directorySource(path, limitsOf(invocation.settings));
  const reading = await source.read(invocation.terminal.stop);
  if (reading.content === null) throw new Failure(reading.problems, exitCodes.invalid);
  return {
    ...(await buildContent(invocation, { content: reading.content, root: path, usersByEmail })),
    content: reading.content,
    revision: reading.content.revision,
  };
}

/** Builds content that was read already. `root`: where it is files; null otherwise. */
export async function buildContent(
  invocation: Invocation,
  {
    content,
    root,
    usersByEmail,
  }: {
    readonly content: SourceContent;
    readonly root: string | null;
    readonly usersByEmail: ReadonlyMap<string, string> | null;
  },
): Promise<Desired> {
  const context = { ...desiredContextOf(invocation, root), usersByEmail };
  await context.parseAhead?.(content.files, context);
  return buildDesired(content.files, context);
}
