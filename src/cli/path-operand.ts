import { lstatSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createDirectorySource } from '../adapters/source/directory.ts';
import { readRegularFile } from '../adapters/source/regular-file.ts';
import { isManifestPath } from '../manifest/manifest.ts';
import { decodeText } from '../manifest/read-manifests.ts';
import { keepFirst } from '../model/group-by.ts';
import type { Problem } from '../model/problem.ts';
import type { SourceContent, SourceFile } from '../ports.ts';
import { explainMisspeltCommand } from './arguments.ts';
import { exitCodes, Failure, type Invocation, makeFailure } from './command.ts';
import { readLimits } from './plan-settings.ts';

/** PATH as it was written and absolute. */
export type PathOperand = Readonly<Record<'written' | 'path', string>>;

/** The PATH operand. Throws a `Failure` that says what to do when there is none. */
export function readPathOperand({ operands, terminal }: Invocation, command: string): PathOperand {
  const [written = ''] = operands;
  if (written === '') {
    const isThere = lstatSync(resolve(terminal.cwd, command), { throwIfNoEntry: false })?.isDirectory() === true;
    const named = isThere ? `reconcile ${command} ./${command}` : `reconcile ${command} policy`;
    throw makeFailure('no-path', 'PATH is missing', `name the directory of the manifests, such as \`${named}\``);
  }
  return { written, path: resolve(terminal.cwd, written) };
}

/** The PATH operand of a command that plans: a directory. One file would be the whole policy, and all other rules be deleted. */
export function readDirectoryOperand(invocation: Invocation, command: string): PathOperand {
  const operand = readPathOperand(invocation, command);
  const { written } = operand;
  const found = statSync(operand.path, { throwIfNoEntry: false });
  const misspelt = found === undefined ? explainMisspeltCommand(written) : null;
  if (misspelt !== null) throw misspelt;
  if (found?.isFile() !== true) return operand;
  const hint =
    command === 'apply' && !isManifestPath(written)
      ? `a saved plan is applied with: reconcile apply ${written} PATH`
      : `name its directory: reconcile ${command} ${dirname(written)}; to check the file: reconcile validate ${written}`;
  const summary = `${written} is a file, not a directory: it would be the whole policy`;
  throw makeFailure('no-source', summary, hint, exitCodes.invalid);
}

/** The manifests below a folder; throws a `Failure` (exit 4) where there are none that can be read. */
export async function readFolder({ settings, terminal }: Invocation, path: string): Promise<SourceContent> {
  const { content, problems } = await createDirectorySource(path, readLimits(settings)).read(terminal.stop);
  if (content === null) throw new Failure(problems, exitCodes.invalid);
  return content;
}

/** Fails where a file above the folder of manifests is none, such as the settings that `reconcile init` writes above `policy`. */
export function mustBeManifests(
  problems: readonly Problem[],
  files: readonly Pick<SourceFile, 'path' | 'bytes'>[],
  command: (folder: string) => string,
): void {
  const above = problems.find(({ code, place }) => code === 'not-a-manifest' && place?.file.includes('/') === false);
  const isBelow = ({ path, bytes }: (typeof files)[number]): boolean =>
    path.includes('/') && /^apiVersion:/m.test(decodeText(bytes) ?? '');
  const [folder = ''] = files.find(isBelow)?.path.split('/') ?? [];
  if (above === undefined || folder === '') return;
  const hint = `name the folder of the manifests: \`${command(folder)}\``;
  throw makeFailure('not-a-manifest', `${above.place?.file} is no manifest`, hint, exitCodes.invalid);
}

/** A manifest file as it is: `shown` as the person named it. */
export interface NamedManifest {
  readonly shown: string;
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** The manifests at each operand, each file once: one file, or all below a directory; `-`: one on stdin. */
export async function readManifestFiles(invocation: Invocation): Promise<readonly NamedManifest[]> {
  const named = await Promise.all(invocation.operands.map((written) => readFilesAt(invocation, written)));
  return keepFirst(named.flat(), ({ path }) => path);
}

async function readFilesAt(invocation: Invocation, written: string): Promise<readonly NamedManifest[]> {
  const { settings, terminal } = invocation;
  if (written === '-' && terminal.readStdin !== undefined) {
    const bytes = await terminal.readStdin(readLimits(settings).fileBytes);
    if (bytes === null) throw makeFailure('unreadable-file', 'stdin is larger than a manifest may be');
    return [{ shown: '-', path: '-', bytes }];
  }
  const path = resolve(terminal.cwd, written);
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) throw makeFailure('no-path', `${written} does not exist`);
  if (status.isSymbolicLink() && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    // Somebody else may have made it, to have another file written.
    throw makeFailure('unreadable-file', `${written} is a link, which is not followed`, 'name the file itself');
  }
  if (status.isFile()) {
    const bytes = await readRegularFile(path, readLimits(settings).fileBytes);
    if (!bytes.ok) throw makeFailure('unreadable-file', `${written} cannot be read: ${bytes.error}`);
    return [{ shown: written, path, bytes: bytes.value }];
  }
  const { files } = await readFolder(invocation, path);
  return files.map(({ path: below, bytes }) => ({ shown: join(written, below), path: join(path, below), bytes }));
}
