// Plays the main job with the built command and the simulated server: plan, apply, in sync, edit, plan with its effect, apply.
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const command = join(root, 'dist/reconcile.js');
const folder = mkdtempSync(join(tmpdir(), 'reconcile-demo-'));
const color = process.stdout.isTTY && !process.env.NO_COLOR;
const strong = (text) => (color ? `\u001b[1m${text}\u001b[0m` : text);
const faint = (text) => (color ? `\u001b[2m${text}\u001b[0m` : text);

const users = ['alice=5a1d4e9c-0000-4000-8000-00000000a11c', 'bob=5a1d4e9c-0000-4000-8000-000000000b0b'];
const server = spawn(
  process.execPath,
  [
    command,
    'simulate',
    '--port',
    '0',
    '--token-file',
    join(folder, 'token'),
    ...users.flatMap((user) => ['--user', user]),
  ],
  { stdio: ['ignore', 'pipe', 'inherit'] },
);

try {
  const url = await firstLine(server);
  mkdirSync(join(folder, 'policy'));
  for (const file of ['rules.yaml', 'configuration.yaml']) {
    cpSync(join(root, 'scripts/demo', file), join(folder, 'policy', file));
  }
  const token = join(folder, 'token');
  // What was applied is recorded, so that the next plan can name deleted rules; with CI=true it would not be.
  const record = { CI: 'false', RECONCILE_STATE_DIR: join(folder, 'state') };
  const secret = { RECONCILE_SECRET_GOOGLE: 'of-the-demo' };
  const env = { ...process.env, ...record, ...secret, RECONCILE_BASE_URL: url, RECONCILE_TOKEN_FILE: token };
  const context = { env };

  say(
    'A simulated Firezone server runs on loopback, and a folder holds a policy.',
    'policy/rules.yaml',
    'policy/configuration.yaml',
  );
  run(context, ['validate', 'policy']);
  const bind = ['--bind-secret', 'RECONCILE_SECRET_GOOGLE=google@accounts.google.com'];
  say('A plan shows the changes and never writes. --bind-secret says where the secret may go: no manifest can.');
  run(context, ['plan', 'policy', ...bind]);
  say('Apply it. Afterwards the server is read again, and must agree.');
  run(context, ['apply', 'policy', '--yes', ...bind], { quiet: true });
  say('Nothing is left to do.');
  run(context, ['plan', 'policy']);
  say('Somebody edits the policy: bob loses the replica, and the metadata service is closed for its whole network.');
  edit('policy/rules.yaml', 'users: [alice, bob]', 'users: [alice]');
  edit('policy/rules.yaml', 'destination: 169.254.169.254', 'destination: 169.254.0.0/16');
  say('The plan says which traffic opens and closes, and what is exposed on the way.');
  run(context, ['plan', 'policy', '--detailed-exitcode'], { expect: 2 });
  run(context, ['apply', 'policy', '--yes'], { quiet: true });
  say('A mistake in the manifests is shown with its file, line and column. Nothing is sent.');
  edit('policy/rules.yaml', 'destination: 10.1.0.53,', 'destinaton: 010.1.0.53,');
  run(context, ['plan', 'policy'], { expect: 4 });
  process.stdout.write(`\n${strong('That is all.')} Next: README.md, docs/start/getting-started.md, examples/.\n`);
} finally {
  server.kill('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const match = /^listening (\S+)\n/.exec(text);
      if (match) resolve(match[1]);
    });
    child.once('exit', (code) => reject(new Error(`the simulator ended with ${code}`)));
  });
}

function say(...lines) {
  process.stdout.write(`\n${strong(lines[0])}\n`);
  for (const file of lines.slice(1)) {
    const text = readFileSync(join(folder, file), 'utf8').trimEnd();
    process.stdout.write(`\n${faint(text.replace(/^/gm, '    '))}\n`);
  }
}

/** Runs the command as a person would, and checks the exit code: a demo that lies is worse than none. */
function run({ env }, args, { expect = 0, quiet = false } = {}) {
  process.stdout.write(`\n${strong(`$ reconcile ${args.join(' ')}`)}\n`);
  const result = spawnSync(process.execPath, [command, ...args], { cwd: folder, env: colored(env), encoding: 'utf8' });
  const text = result.stdout + result.stderr;
  process.stdout.write(quiet ? lastParagraph(text) : text);
  if (result.status !== expect) throw new Error(`exit code ${result.status} instead of ${expect}`);
  if (expect !== 0) process.stdout.write(faint(`exit code ${expect}\n`));
}

function colored(env) {
  return color ? { ...env, FORCE_COLOR: '1' } : env;
}

/** The plan was just shown: only what came of it. */
function lastParagraph(text) {
  return `${text.trimEnd().split('\n').at(-1)}\n`;
}

function edit(file, before, after) {
  const path = join(folder, file);
  const text = readFileSync(path, 'utf8');
  if (!text.includes(before)) throw new Error(`${file} does not hold ${before}`);
  writeFileSync(path, text.replace(before, after));
}
