import { defineConfig } from 'vitest/config';

/** Whether tests run that play with many real processes, wait for their time or search long: CI and `npm run soak` say so. */
const isLongStage = process.env['PROPERTY_RUNS'] !== undefined;

export default defineConfig({
  test: {
    globalSetup: ['test/setup/global.ts'],
    // `npm test` keeps a shorter one of each kind.
    ...(isLongStage ? {} : { testNamePattern: /^(?!.*\(long\)$)/ }),
    // What takes a second alone takes half a minute on a busy machine; a test that hangs fails all the same.
    testTimeout: isLongStage ? 300_000 : 90_000,
    hookTimeout: 90_000,
    pool: 'forks',
    // On two cores: many tests wait for processes and timers of theirs.
    maxWorkers: 3,
    reporters: ['default'],
    setupFiles: ['test/setup/seed.ts'],
    include: ['test/**/*.test.ts'],
    // The files of a worker share its process, and load the code once: no test leaves anything behind there.
    isolate: false,
  },
});
