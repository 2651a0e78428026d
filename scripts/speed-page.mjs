// Writes docs/explanation/speed.md from the last `npm run bench` (build/bench.jsonl): `node scripts/speed-page.mjs`.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const lines = readFileSync(`${root}build/bench.jsonl`, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));
const grown = /^a plan in sync, (.+) rules in RuleSets, over its floor: (CPU|wall time|memory)$/;

const sizes = [...new Set(lines.map(({ name }) => grown.exec(name)?.[1]).filter((size) => size !== undefined))];
const cell = (size, of) => {
  const line = lines.find(({ name }) => name === `a plan in sync, ${size} rules in RuleSets, over its floor: ${of}`);
  return line === undefined ? '' : `${line.ours} (${line.floor})`;
};
const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (heads, rows) => [row(heads), row(heads.map(() => '---')), ...rows.map(row)].join('\n');

writeFileSync(
  `${root}docs/explanation/speed.md`,
  `# How fast it is

\`npm run bench\` measures each line beside its floor: what any tool needs at least for the same, in the same minute on the same
machine. It ends with 1 when a line is over its limit. These figures are of one run with Node ${process.versions.node} on a machine with ${cpus().length}
cores that did much other work as well: wall time suffers from that, CPU time less.

The script \`scripts/speed-page.mjs\` writes this page from the last run.

## How a plan grows

A plan in sync: read the manifests (RuleSets of up to 1,000 rules), read the server, compare. In parentheses: the floor, which fetches the same and
parses the same files with the YAML library, and does nothing with them.

${table(
  ['rules', 'CPU', 'wall time', 'memory'],
  sizes.map((size) => [size, cell(size, 'CPU'), cell(size, 'wall time'), cell(size, 'memory')]),
)}

## Every line

The limit is of what we took, of what that is over the floor, or of the ratio. Floors: Node alone (node -e 0) of start-ups and memory;
reading the rules as JSON of a plan, its effect and its lint; the requests alone of the sidecar and of a fleet.

${table(
  ['what', 'ours', 'floor', 'ratio', 'limit'],
  lines
    .filter(({ name }) => !grown.test(name))
    .map(({ name, ours, floor, ratio, limit }) => [
      name.replaceAll('|', '\\|').replaceAll('`', ''),
      ours,
      floor,
      ratio,
      limit,
    ]),
)}
`,
);
