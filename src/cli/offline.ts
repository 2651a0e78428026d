import { directorySource } from '../adapters/source/directory.ts';
import type { Desired } from '../desired/context.ts';
import { assemble } from '../desired/desired.ts';
import type { Invocation } from './command.ts';
import { exitCodes } from './exit-code.ts';
import { Failure } from './failure.ts';
import { desiredContextOf, parserOf } from './manifests.ts';
import { limitsOf } from './plan-settings.ts';

/** What the manifests below a path come to, without a server. */
export interface OfflineBuild extends Desired {
  readonly revision: string;
}

/**
 * Reads and builds the manifests below `path`; needs no server and no token, and leaves e-mail addresses unresolved. A source
 * that cannot be read ends the command with exit code 4.
 */
export async function buildOffline(invocation: Invocation, path: string): Promise<OfflineBuild> {
  const { settings, terminal } = invocation;
  const { content, problems } = await directorySource(path, limitsOf(settings)).read(terminal.stop);
  if (content === null) throw new Failure(problems, exitCodes.invalid);
  const parsed = await parserOf(settings)(content.files);
  return { ...assemble(parsed, null, desiredContextOf(invocation, path)), revision: content.revision };
}
