import { parentPort } from 'node:worker_threads';
import { readManifests } from '../manifest/read-manifests.ts';

// The entry of a worker thread: one request, one answer, until the thread is ended from outside.
parentPort?.on('message', (request: Parameters<typeof readManifests>) => {
  parentPort?.postMessage(readManifests(...request));
});
