#!/usr/bin/env node
import { enableCompileCache } from './cli/compile-cache.ts';
import { version } from './version.ts';

// Answered before anything else is loaded.
if (process.argv.length === 3 && process.argv[2] === '--version') {
  process.stdout.write(`${version}\n`);
} else {
  enableCompileCache(process.argv.slice(2));
  // No `await` here: the single executable is CommonJS, which has none at the top.
  import('./cli/process.ts').then(({ runMain }) => runMain()).catch(explainUnloaded);
}

/** With very few files to open, not even the program can be read; all that comes later is said in `cli/run.ts`. */
function explainUnloaded(error: unknown): void {
  if (!(error instanceof Error) || !/^E[MN]FILE:/.test(error.message)) throw error;
  process.stderr.write(
    'error [open-files] this process may open no more files\n    hint: raise the limit: ulimit -n, LimitNOFILE in a unit\n',
  );
  process.exitCode = 1;
}
