import { randomInt } from 'node:crypto';
import { ensureBuilt } from '../controller/support/sidecar.ts';

/** Builds once what test files that run beside each other would each build, and chooses the seed of all properties in this run and prints it; `PROPERTY_SEED=N` runs them again with the same cases. */
export default function prepare(): void {
  ensureBuilt();
  const seed = process.env['PROPERTY_SEED'] ?? String(randomInt(2 ** 31));
  process.env['PROPERTY_SEED'] = seed;
  process.stdout.write(`PROPERTY_SEED=${seed}\n`);
}
