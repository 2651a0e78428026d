// Prints the test files that failed in a run, if they are so few that chance may be why.
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';

const [report] = process.argv.slice(2);
const MOST = 3;
if (existsSync(report)) {
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  const failed = testResults.filter(({ status }) => status === 'failed').map(({ name }) => relative('.', name));
  if (failed.length <= MOST) for (const file of failed) console.log(file);
}
