import { decodeSnapshot, type Snapshot } from '../live/snapshot.ts';
import type { ApiResult, LiveApi } from '../ports.ts';
import { makeFailure } from './command.ts';
import { readNamedFile } from './read-file.ts';

const largest = 200_000_000;

/** An API that answers from a snapshot, and takes no writes. */
export function createSnapshotApi({ bodies }: Snapshot): LiveApi {
  const answer = (body: unknown): Promise<ApiResult> =>
    Promise.resolve({ kind: 'answer', status: 200, body, retryAfterMs: null });
  const message = 'a snapshot takes no writes';
  const refuse = (): Promise<ApiResult> =>
    Promise.resolve({ kind: 'no-answer', sent: 'no', code: 'refused', message, status: null });
  return {
    listRules: () => answer(bodies.rules),
    getConfiguration: () => answer(bodies.configuration),
    listUsers: refuse,
    createRule: refuse,
    updateRule: refuse,
    deleteRule: refuse,
    updateConfiguration: refuse,
  };
}

/** Reads a snapshot file; throws a `Failure` that says how to make one. */
export function readSnapshot(file: string): Snapshot {
  const hint = 'make one where the token is: reconcile snapshot --out FILE';
  let value: unknown;
  try {
    const bytes = readNamedFile({ path: file, code: 'snapshot', name: `the snapshot ${file}`, largest, hint });
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) throw makeFailure('snapshot', `the snapshot ${file} is not JSON`, hint);
    throw error;
  }
  const decoded = decodeSnapshot(value);
  if (!decoded.ok) throw makeFailure('snapshot', `the snapshot ${file} cannot be used: ${decoded.error}`, hint);
  return decoded.value;
}
