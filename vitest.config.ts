import { defineConfig } from 'vitest/config';

/** Rooms whose tests leave nothing behind in their process: their files share it, and load the code once. */
const pure = 'test/{contract,desired,live,manifest,model,pass,plan,policy,report,simulator}/**/*.test.ts';

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
    projects: [
      { extends: true, test: { name: 'pure', include: [pure], isolate: false, setupFiles: ['test/setup/seed.ts'] } },
      {
        extends: true,
        test: { name: 'whole', include: ['test/**/*.test.ts'], exclude: [pure], setupFiles: ['test/setup/seed.ts'] },
      },
    ],
  },
});
