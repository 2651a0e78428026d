// Runs the apply's property tests many more times than CI does: `npm run soak`, or `npm run soak -- COUNT`.
import { spawnSync } from 'node:child_process';

const count = process.argv[2] ?? '100000';
if (!/^[1-9][0-9]*$/.test(count)) {
  console.error(`soak: not a number of cases: ${count}`);
  process.exit(2);
}
const root = new URL('..', import.meta.url).pathname;
const { status } = spawnSync('npx', ['vitest', 'run', 'test/property/apply.test.ts'], {
  cwd: root,
  env: { ...process.env, PROPERTY_RUNS: count },
  stdio: 'inherit',
});
process.exit(status ?? 1);
