// Adds up what the test runs counted and prints the closing line; exits 1 when a test or a stage failed.
import { readFileSync } from 'node:fs';

const [stageFailed, ...files] = process.argv.slice(2);
let passed = 0;
let failed = 0;
let skipped = 0;
for (const file of files) {
  const result = JSON.parse(readFileSync(file, 'utf8'));
  passed += result.numPassedTests;
  failed += result.numFailedTests;
  skipped += result.numPendingTests;
  // A file that cannot be loaded counts no test of its own.
  failed += result.testResults.filter((one) => one.status === 'failed' && one.assertionResults.length === 0).length;
}
if (stageFailed !== '0' && failed === 0) failed = 1; // a stage without tests: the install, the lint
if (skipped > 0) console.log(`${skipped} skipped: see the plain messages above`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
