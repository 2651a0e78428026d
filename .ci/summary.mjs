// Adds up what the test runs counted, says last what failed (of a long log often only the end is kept), and prints the
// closing line; exits 1 when a test or a stage failed. Arguments: the folder of the reports, the stages that failed.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

const [folder, ...failedStages] = process.argv.slice(2);
const LINES_PER_FAILURE = 30;
const reports = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => basename(name, '.json'));
const load = (stage) => JSON.parse(readFileSync(join(folder, `${stage}.json`), 'utf8'));
const second = (stage) => `${stage}-again`;

/** Failures of one run by test, or by file where no test of it could run. */
function failuresOf({ testResults }) {
  const found = new Map();
  for (const { name, status, message, assertionResults } of testResults) {
    const file = relative('.', name);
    const broken = assertionResults.filter((one) => one.status === 'failed');
    for (const one of broken) found.set(`${file} > ${one.fullName}`, one.failureMessages.join('\n'));
    if (status === 'failed' && broken.length === 0) found.set(file, message);
  }
  return found;
}

let passed = 0;
let skipped = 0;
const failures = [];
const flaky = [];
for (const stage of reports.filter((name) => !name.endsWith('-again'))) {
  const result = load(stage);
  const retried = reports.includes(second(stage)) ? failuresOf(load(second(stage))) : null;
  passed += result.numPassedTests;
  skipped += result.numPendingTests;
  for (const [what, why] of failuresOf(result)) {
    const passedThen = retried !== null && !retried.has(what);
    if (passedThen) passed += 1;
    (passedThen ? flaky : failures).push([`${stage}: ${what}`, why]);
  }
}
// What passed the second time is no failure of its stage; a stage without tests (the install, the lint) is never tried twice.
const broken = failedStages.filter(
  (stage) => !(reports.includes(second(stage)) && !failedStages.includes(second(stage))),
);

function show(word, [what, why]) {
  const said = stripVTControlCharacters(why).split('\n');
  const lines = said.filter((line) => !line.includes('node_modules/')).slice(0, LINES_PER_FAILURE);
  console.log(`${word} ${what}\n${lines.map((line) => `  ${line}`).join('\n')}`);
}
for (const one of flaky) show('FLAKY (passed when run again)', one);
for (const one of failures) show('FAILED', one);
if (broken.length > 0) console.log(`failed stages: ${broken.join(', ')}`);
if (skipped > 0) console.log(`${skipped} skipped: see the plain messages above`);
const failed = Math.max(failures.length, broken.length > 0 ? 1 : 0);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
