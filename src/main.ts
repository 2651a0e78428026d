#!/usr/bin/env node
import { version } from './version.ts';

// Answered before anything else is loaded.
if (process.argv.length === 3 && process.argv[2] === '--version') {
  process.stdout.write(`${version}\n`);
} else {
  const { runProcess } = await import('./cli/process.ts');
  await runProcess();
}
