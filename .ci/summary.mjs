// Adds up what the test runs counted, says last what failed (of a long log often only the end is kept), and prints the
// closing line; exits 1 when a test or a stage failed.
import { readFileSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

const [failedStages, ...files] = process.argv.slice(2);
const LINES_PER_FAILURE = 30;
const failures = [];
let passed = 0;
let failed = 0;
let skipped = 0;
for (const file of files) {
  const result = JSON.parse(readFileSync(file, 'utf8'));
  passed += result.numPassedTests;
  failed += result.numFailedTests;
  skipped += result.numPendingTests;
  for (const { name, status, message, assertionResults } of result.testResults) {
    const where = `${basename(file, '.json')}: ${relative('.', name)}`;
    const broken = assertionResults.filter((one) => one.status === 'failed');
    for (const one of broken) failures.push([`${where} > ${one.fullName}`, one.failureMessages.join('\n')]);
    if (status === 'failed' && broken.length === 0) failures.push([where, message]);
    // A file that cannot be loaded counts no test of its own.
    if (status === 'failed' && assertionResults.length === 0) failed += 1;
  }
}
if (failedStages !== '' && failed === 0) failed = 1; // a stage without tests: the install, the lint
for (const [what, why] of failures) {
  const lines = stripVTControlCharacters(why).split('\n').slice(0, LINES_PER_FAILURE);
  console.log(`FAILED ${what}\n${lines.map((line) => `  ${line}`).join('\n')}`);
}
if (failedStages !== '') console.log(`failed stages: ${failedStages}`);
if (skipped > 0) console.log(`${skipped} skipped: see the plain messages above`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
