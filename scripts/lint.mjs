// Runs every check of `npm run lint` at once; prints the output of those that fail, and ends with 1 when one does.
import { spawn } from 'node:child_process';

const checks = [
  'oxlint --type-aware src test',
  'tsc -p .',
  'biome check --error-on-warnings .',
  'knip',
  'vitest run test/architecture.test.ts',
];
const root = new URL('..', import.meta.url).pathname;
const results = await Promise.all(checks.map(run));
for (const { check, output } of results.filter(({ code }) => code !== 0)) console.error(`${check} failed:\n${output}`);
process.exitCode = results.some(({ code }) => code !== 0) ? 1 : 0;

function run(check) {
  const [name, ...args] = check.split(' ');
  const child = spawn(`${root}node_modules/.bin/${name}`, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ check, code: 1, output: String(error) }));
    child.on('close', (code) => resolve({ check, code, output }));
  });
}
