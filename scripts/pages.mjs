// The pages of a rich example, as the built command makes them against the simulated server: what docs/images shows. Addresses, times and
// ids are those of a day like any other, so that the same program gives the same pages.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const command = join(root, 'dist/reconcile.js');

/** What somebody did to the policy that is in force: some of it opens traffic, some closes it, and a policy test says no to one. */
const edits = [
  ['rules/baseline.yaml', '169.254.169.254, "fd00', '169.254.0.0/16, "fd00'],
  ['rules/guests.yaml', /^.*name: printer.*\n/m, ''],
  ['rules/contractors.yaml', 'port_range: 22', 'port_range: [22, 443]'],
  [
    'rules/contractors.yaml',
    /$/,
    `---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: release-week, owner: web-team}
spec:
  expires: 2090-03-08
  defaults: {action: accept, port_type: tcp, group: contractors}
  rules:
    - {name: deploy, destination: 10.10.7.0/24, port_range: 8443}
    - {name: logs, destination: 10.10.8.20, port_range: 9200, notBefore: 2090-03-04}
`,
  ],
];

/** The pages by name: a plan, and a sidecar that refuses it. */
export async function makePages() {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-pages-'));
  const running = [];
  const start = async (pattern, ...args) => {
    const child = spawn(process.execPath, [command, ...args], { cwd: folder, env: environment(folder), stdio: 'pipe' });
    running.push(child);
    return await said(child, pattern);
  };
  const run = (...args) => {
    const { status, stderr } = spawnSync(process.execPath, [command, ...args], {
      cwd: folder,
      env: environment(folder),
    });
    if (status !== 0 && status !== 3) throw new Error(`${args.join(' ')}: exit code ${status}: ${stderr}`);
  };
  try {
    cpSync(join(root, 'examples/company'), join(folder, 'policy'), { recursive: true });
    const people = readFileSync(join(folder, 'policy/people/users.yaml'), 'utf8').matchAll(
      /^ {2}(\w+): ([0-9a-f-]{36})$/gm,
    );
    const users = [...people].flatMap(([, name, id]) => ['--user', `${name}@example.com=${id}`]);
    const url = await start(/listening (\S+)/, 'simulate', '--listen', '0', '--token-file', 'token', ...users);
    const server = ['--base-url', url, '--token-file', 'token'];
    run('apply', '--yes', ...server, 'policy');
    for (const [file, before, after] of edits) edit(join(folder, 'policy', file), before, after);
    run('plan', ...server, '--at', '2090-03-01T09:00:00Z', '--output', 'html=plan.html', 'policy');
    const quiet = ['--quiet', '20ms', '--delete-quiet', '50ms', '--log-format', 'json'];
    const page = await start(/"address":"([^"]+)"/, 'watch', ...server, ...quiet, '--listen', '127.0.0.1:0', 'policy');
    const pages = { plan: readFileSync(join(folder, 'plan.html'), 'utf8'), sidecar: await fetchWhen(page, 'Refused') };
    return Object.fromEntries(Object.entries(pages).map(([name, html]) => [name, likeAnyDay(html, { url, folder })]));
  } finally {
    for (const child of running) child.kill('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** As for a person: a job of CI keeps no record of what was applied, by which deleted rules have names. */
function environment(folder) {
  return { PATH: process.env.PATH, HOME: folder, CI: '', RECONCILE_STATE_DIR: join(folder, 'state') };
}

function edit(file, before, after) {
  const text = readFileSync(file, 'utf8');
  const edited = text.replace(before, after);
  if (edited === text) throw new Error(`${file} does not hold ${before}`);
  writeFileSync(file, edited);
}

function said(child, pattern) {
  return new Promise((resolve, reject) => {
    let text = '';
    const take = (chunk) => {
      text += chunk;
      const found = pattern.exec(text);
      if (found) resolve(found[1]);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('exit', (code) => reject(new Error(`ended with ${code}: ${text}`)));
  });
}

/** The sidecar's page as soon as this is its headline. */
async function fetchWhen(url, headline) {
  for (;;) {
    const page = await (await fetch(url, { headers: { accept: 'text/html' } })).text();
    if (page.includes(`<h1>${headline}</h1>`)) return page;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function likeAnyDay(html, { url, folder }) {
  return html
    .replaceAll(url, 'https://vpn.example.com')
    .replaceAll(`${folder}/`, '')
    .replace(
      /<time [^>]*>(?!2090)[^<]*<\/time>/g,
      '<time datetime="2090-03-01T09:00:00Z">2090-03-01 09:00:00 UTC</time>',
    )
    .replace(/sha256:[0-9a-f]{12,64}/g, 'sha256:4df71eb0c2b1')
    .replace(/\b[0-9a-f]{32}\b/g, '8e3c3b24c5a00d6f2b1a4f53d2c8a1f6')
    .replace(/(?<=<th scope="row">)[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?(?=<)/g, '8c1f02ab')
    .replace(/\bDigest [0-9a-f]{12}\b/g, 'Digest 8e3c3b24c5a0')
    .replace(/\b\d+ ms\b/g, '26 ms')
    .replace(/\bin [\d,]+ (?:days|years)/g, 'in 7 days')
    .replace(/(<\/time>, )[^<]* ago/g, '$13 minutes ago')
    .replace(/this replica: [^<]*/g, 'this replica')
    .replace(/\bby reconcile [\d.]+/g, 'by reconcile');
}
