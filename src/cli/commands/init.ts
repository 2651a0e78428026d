import { existsSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { listRepositories } from '../../adapters/source/work-tree.ts';
import type { ExportedFile } from '../../desired/export.ts';
import { findSecretHost, type SecretBinding } from '../../model/configuration.ts';
import { escapeControls } from '../../model/printable.ts';
import { hasErrors } from '../../model/problem.ts';
import { renderProblems } from '../../report/problems.ts';
import { version } from '../../version.ts';
import { findServer } from '../approval.ts';
import { type Answer, exitCodes, type Invocation, makeFailure } from '../command.ts';
import { runPass } from '../pass-run.ts';
import { replaceNamed } from '../read-file.ts';
import { examineServer, renderExamination } from './doctor.ts';
import { addSchemas, describeSecrets, exportServer, listOtherManifests } from './export.ts';
import { run as runValidate } from './validate.ts';

type Forge = 'github' | 'gitlab';

/** Where the repository and the policy in it are made, and for which server. */
type Place = Readonly<Record<'folder' | 'path' | 'written' | 'server', string>> & { readonly forge: Forge | null };

const policy = 'policy';

/** `reconcile init [DIR]`: a repository for a server; files that are there stay. `--example`: manifests to begin with, without a server. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  const folder = resolve(terminal.cwd, operands[0] ?? '.');
  const server = findServer(settings) ?? 'https://vpn.example.com';
  const path = join(folder, policy);
  const [top = folder] = settings.forge === null ? [] : listRepositories(folder);
  if (top !== folder) {
    const summary = `${folder} lies in the repository ${top}, and a forge reads workflows at the top alone`;
    throw makeFailure('usage', summary, `run \`reconcile init\` there, or first \`git init ${operands[0] ?? '.'}\``);
  }
  const forge = settings.forge ?? readForge(folder);
  const place = { folder, path, written: relative(terminal.cwd, path) || '.', server, forge };
  if (!settings.example) return await initFromServer(invocation, place);
  const manifests = addSchemas([{ path: 'office.yaml', text: exampleRules }]);
  const written = await writeMissing(place, manifests, settingsText(place, [], 0));
  const checked = await runValidate({ ...invocation, operands: [place.written] });
  return { ...checked, text: (display) => `${written}\n${checked.text?.(display) ?? ''}\n${describeNext(place)}` };
}

async function initFromServer(invocation: Invocation, place: Place): Promise<Answer> {
  const examination = await examineServer(invocation);
  if (hasErrors(examination.problems)) {
    const end = '\nNothing was written.\n';
    return { exit: exitCodes.failed, text: ({ color }) => `${renderExamination(examination, color)}${end}` };
  }
  const { files, problems, configuration, live } = await exportServer(invocation);
  const providers = live.configuration?.fields.openid_connect_providers ?? [];
  const bindings = providers.flatMap(({ id, discovery_document_uri: uri }, index): readonly SecretBinding[] => {
    const [name, host] = [configuration.secrets[index], findSecretHost(uri)];
    return name === undefined || host === null ? [] : [{ name, provider: id, host }];
  });
  const written = await writeMissing(place, addSchemas(files), settingsText(place, bindings, live.rules.length));
  const plan = await runPass(
    { ...invocation, settings: { ...invocation.settings, detailedExitcode: true } },
    { path: place.path, written: place.written, planOnly: true, saved: null },
  );
  return {
    ...plan,
    text: (display) =>
      `${renderExamination(examination, display.color)}\n${written}\n${plan.text?.(display) ?? ''}\n${describeNext(place)}`,
    notes: (color) => `${renderProblems(problems, color)}${describeSecrets(configuration)}${plan.notes?.(color) ?? ''}`,
  };
}

/** Writes what is not there; manifests only where there is none yet, since those that are there may mean the same. */
async function writeMissing(place: Place, manifests: readonly ExportedFile[], settings: string) {
  const { folder } = place;
  const isNew = !existsSync(place.path) || listOtherManifests(place.path, []).length === 0;
  const below = isNew ? manifests.map(({ path, text }) => ({ path: `${policy}/${path}`, text })) : [];
  const lines = isNew ? [] : [`  kept     ${policy}, which holds manifests\n`];
  const around = [
    { path: 'settings.yaml', text: settings },
    ...(place.forge === 'github' ? [{ path: '.github/workflows/firezone.yml', text: githubWorkflow(place) }] : []),
    ...(place.forge === 'gitlab' ? [{ path: '.gitlab-ci.yml', text: gitlabJobs(place) }] : []),
    { path: '.pre-commit-config.yaml', text: hooks },
    { path: 'README.md', text: readme(place) },
  ];
  for (const { path, text } of [...below, ...around]) {
    const isKept = existsSync(join(folder, path));
    if (!isKept) await replaceNamed(join(folder, path), text, 'DIR and its permissions');
    lines.push(`  ${isKept ? 'kept   ' : 'written'}  ${path}\n`);
  }
  return `${escapeControls(folder)}\n${lines.join('')}`;
}

/** The forge of the repository's remote `origin`; null where that does not say. */
function readForge(folder: string): Forge | null {
  const remote = /\[remote "origin"\][^[]*?\n\s*url\s*=\s*(?:\w+:\/\/)?(?:[^@/\s]*@)?([^/:\s]+)/;
  const host = remote.exec(readGitFiles(folder))?.[1] ?? '';
  return host.includes('github') ? 'github' : host.includes('gitlab') ? 'gitlab' : null;
}

/** Git's settings of a repository, the default branch of `origin`, and the branch checked out (`.invalid`: kept elsewhere). */
function readGitFiles(folder: string): string {
  const files = ['config', 'refs/remotes/origin/HEAD', 'HEAD'].map((name) => join(folder, '.git', name));
  return files.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n');
}

function settingsText({ server }: Place, bindings: readonly SecretBinding[], rules: number): string {
  const bound = bindings.map((one) => `    - ${JSON.stringify(one)}\n`).join('');
  return `# Settings of reconcile. Give them with --config settings.yaml, or set RECONCILE_CONFIG.
# The token is not in here: name its file with --token-file, or print it with secretsFrom.
baseUrl: ${server}
# A plan that deletes more of the live rules is refused. A share counts from 10 live rules on.
maxDeletes: ${rules < 10 ? 2 : '10%'}
# secretsFrom: [sops, decrypt, secrets.enc.env]
${bound === '' ? '' : `# Where client secrets may go. Their values are never in Git.\nsecrets:\n  bind:\n${bound}`}`;
}

const home = 'OWNER/firezone-reconcile';
const ownerNote = '# Replace OWNER by the home of your copy of reconcile.';

function githubWorkflow({ folder, server }: Place): string {
  const branch = /^ref: refs\/(?:remotes\/origin|heads)\/([^.\n].*)$/m.exec(readGitFiles(folder))?.[1];
  const escaped = (branch ?? 'main').replace(/[*+?[\]!]/g, '\\$&'); // the forge reads it as a pattern
  return `name: firezone
on:
  pull_request: {types: [opened, synchronize, reopened, edited]}
  push: {branches: [${JSON.stringify(escaped)}]} # ${branch === undefined ? 'put your default branch here' : 'the default branch'}
permissions: {contents: read, pull-requests: write}
concurrency: {group: "firezone-\${{ github.ref }}", cancel-in-progress: false}
jobs:
  firezone:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with: {fetch-depth: 0}
      ${ownerNote}
      - uses: ${home}@v${version}
        with:
          path: ${policy}
          config: settings.yaml
          base-url: ${server}
          token: \${{ secrets.FIREZONE_TOKEN }}
`;
}

function gitlabJobs({ server }: Place): string {
  return `${ownerNote} Set RECONCILE_TOKEN as a protected, masked variable.
include:
  - {project: ${home}, ref: v${version}, file: ci/gitlab.yml}
variables:
  RECONCILE_BASE_URL: ${server}
  RECONCILE_PATH: ${policy}
  RECONCILE_CONFIG: settings.yaml
`;
}

const hooks = `${ownerNote.replace('OWNER', 'HOST/OWNER')}
repos:
  - repo: https://HOST/${home}
    rev: v${version}
    hooks:
      - {id: reconcile-validate, args: [${policy}]}
      - {id: reconcile-fmt, args: [${policy}]}
      - {id: reconcile-test, args: [${policy}]}
`;

function readme({ server, forge }: Place): string {
  const secret = forge === 'gitlab' ? 'the CI variable `RECONCILE_TOKEN`' : 'the secret `FIREZONE_TOKEN`';
  return `# Firewall rules of ${new URL(server).host}

Everything below \`${policy}/\` is the policy of the server. **Rules on the server that are not in it are deleted by the next apply.**

- Check a change: \`reconcile validate ${policy}\`
- See what it does: \`reconcile plan ${policy} --config settings.yaml\`
- Apply it by hand: \`reconcile apply ${policy} --config settings.yaml\`
${forge === null ? '' : `- In CI a pull request gets a plan, and the main branch is applied. Put the API token into ${secret}.\n`}
A token lives 90 days at most; \`reconcile doctor\` says when it ends.
`;
}

const exampleRules = `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: office}
spec:
  rules:
    - {name: closed, action: drop, destination: 10.0.0.0/8}
    - {name: web, action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443}
`;

function describeNext({ forge }: Place): string {
  const workflow = forge === null ? 'No workflow was written: give --forge github or --forge gitlab.\n' : '';
  return `${workflow}Next: read README.md, replace OWNER in the files that name it, run git init here if this is no repository, and commit them to the default branch.\n`;
}
