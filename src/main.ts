#!/usr/bin/env node
import { version } from './version.ts';

// Answered before anything else is loaded.
if (process.argv.length === 3 && process.argv[2] === '--version') {
  process.stdout.write(`${version}\n`);
} else {
  // No `await` here: the single executable is CommonJS, which has none at the top.
  void import('./cli/process.ts').then(({ runMain }) => runMain());
}
