import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readForge } from '../../src/cli/revision.ts';
import type { ConditionReason } from '../../src/controller/conditions.ts';
import { createStatus, type Status } from '../../src/controller/status.ts';
import { findForge, linkCommit, linkPlace } from '../../src/report/forge.ts';
import { renderHtml } from '../../src/report/html.ts';
import { makeProblemReport } from '../../src/report/run-report.ts';
import { chooseHeadline, type SidecarState } from '../../src/report/sidecar.ts';
import { renderSidecar } from '../../src/report/sidecar-html.ts';
import { someStatus } from '../controller/support/some-status.ts';
import { alice, planOf, reportOf } from './support.ts';

const commit = '4df71eb0c2b1a4f53d2c8a1f6f0b3e8a5b7c9d10';

describe('links to a forge', () => {
  it.each([
    ['https://github.com/team/policy.git', `https://github.com/team/policy/commit/${commit}`],
    ['git@github.com:team/policy.git', `https://github.com/team/policy/commit/${commit}`],
    ['ssh://git@gitlab.example.com:2222/net/policy', `https://gitlab.example.com/net/policy/-/commit/${commit}`],
    ['https://git.example.com:8443/net/policy/', `https://git.example.com:8443/net/policy/commit/${commit}`],
    ['git@bitbucket.org:team/policy.git', `https://bitbucket.org/team/policy/commits/${commit}`],
    ['file:///srv/policy.git', null],
    ['http://git.example.com/x', null],
    ['https://user:p@ss@git.example.com/x', null],
  ])('%s', (remote, link) => {
    const forge = findForge(remote);
    expect(forge && linkCommit(forge, commit)).toBe(link);
  });

  it('keep the token of a GitLab job, which stands in its URL, to themselves', () => {
    const remote = 'https://gitlab-ci-token:CANARY-job-token@gitlab.example.com/net/policy.git';
    const forge = findForge(remote, 'prod');
    expect(JSON.stringify(forge)).not.toContain('CANARY');
    const place = { file: 'a b.yaml', line: 3, column: 1 };
    expect(forge && linkPlace(forge, `${commit} (main)`, place)).toBe(
      `https://gitlab.example.com/net/policy/-/blob/${commit}/prod/a%20b.yaml#L3`,
    );
  });

  it('lead to files of a commit below the manifests alone', () => {
    const forge = findForge('https://github.com/team/policy') ?? { url: '', folder: '' };
    const at = (file: string, revision: string | null = commit): string | null =>
      linkPlace(forge, revision, { file, line: 1, column: 1 });
    expect([at('/etc/passwd'), at('../x'), at('a.yaml', 'sha256:0'), at('a.yaml', null)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
  });
});

it.each([
  ['explain', { text: 'tcp 10.0.0.1: accept <b>' }, '<pre>tcp 10.0.0.1: accept &lt;b&gt;</pre>'],
  ['reach', { table: [['who'], ['<alice>']] }, '<td>&lt;alice&gt;</td>'],
])('what %s says is a page too', (_, answer, markup) => {
  expect(renderHtml(makeProblemReport([]), answer)).toContain(markup);
});

it('a plan of a CI job leads to the forge, without the token of the job', () => {
  const gitlab = { CI_REPOSITORY_URL: 'https://gitlab-ci-token:CANARY@gitlab.example.com/net/policy.git' };
  const github = { GITHUB_SERVER_URL: 'https://github.com', GITHUB_REPOSITORY: 'net/policy' };
  const plan = planOf([], { 'office/web': 'accept 10.1.0.0/16' });
  const page = renderHtml({ ...reportOf(plan, { revision: `${commit} (main)` }), forge: readForge(gitlab, 'policy') });
  expect(page).toContain(`href="https://gitlab.example.com/net/policy/-/commit/${commit}"`);
  expect(page).toContain(`/-/blob/${commit}/policy/`);
  expect(page).not.toContain('CANARY');
  expect(readForge(github, 'policy')?.url).toBe('https://github.com/net/policy');
  expect([readForge({}, 'policy'), readForge(github, '/abs')]).toEqual([null, null]);
});

describe('the headline', () => {
  const withReady = (reason: ConditionReason, changes: Partial<Status> = {}): Status => {
    const status = someStatus('why', changes);
    const good = reason === 'InSync' || reason === 'Applied';
    const Ready = { ...status.conditions.Ready, reason, status: good ? ('True' as const) : ('False' as const) };
    return { ...status, conditions: { ...status.conditions, Ready } };
  };

  it.each<[Status, string, string]>([
    [withReady('InSync'), 'good', 'In sync'],
    [withReady('InSync', { progress: { done: 31, total: 60 } }), 'busy', 'Applying 31 of 60'],
    [withReady('DriftReported'), 'bad', 'Drift'],
    [withReady('Refused'), 'bad', 'Refused'],
    [withReady('ManifestsInvalid'), 'bad', 'Newest revision invalid'],
    [withReady('OutsideWindow'), 'waiting', 'Waiting for a window'],
    [withReady('AwaitingConfirmation'), 'waiting', 'Waiting to be confirmed'],
    [withReady('NotConfirmed'), 'bad', 'Newest revision not confirmed'],
    [withReady('ApiUnreachable'), 'bad', 'Failing, and tried again'],
    [createStatus('1', 'x', 0), 'waiting', 'Starting'],
  ])('%#: says %s: %s', (status, tone, text) => {
    expect(chooseHeadline(status)).toMatchObject({ tone, text });
  });

  it('says of settings that cannot be used what to do about them, whatever else is so', () => {
    const status = withReady('Suspended');
    const Stalled = {
      ...status.conditions.Stalled,
      status: 'True' as const,
      reason: 'BadSettings' as const,
      message: 'm',
    };
    const { text, advice, command } = chooseHeadline({ ...status, conditions: { ...status.conditions, Stalled } });
    expect([text, advice, command]).toEqual([
      'The settings cannot be used',
      expect.stringMatching(/flags and variables with a restart/),
      'SIGHUP',
    ]);
  });

  it('gives a line for an emergency that has the scope and guards of the sidecar, and that asks', () => {
    const { advice, command } = chooseHeadline(withReady('OutsideWindow'));
    expect(command).toBe('reconcile apply --config SETTINGS --override-window REASON PATH');
    expect(advice).toContain('--fleet FILE --target NAME');
  });

  it('says why it is stalled', () => {
    const status = withReady('Unauthorized');
    const Stalled = { ...status.conditions.Stalled, status: 'True' as const };
    const stalled = { ...status, conditions: { ...status.conditions, Stalled } };
    expect(chooseHeadline(stalled)).toMatchObject({ text: 'Stalled', detail: 'why', command: 'reconcile doctor' });
  });
});

/** A page with one text in every place that text can come from outside. */
function pageWith(text: string): string {
  const plan = planOf(['drop 192.0.2.2'], { 'office/web': `accept 10.1.0.0/16 tcp 443 for ${alice}` });
  const refusals = [{ code: 'all-vanish' as const, summary: text, hint: text }];
  const changes = plan.changes.map((change) => ({ ...change, name: text }) as typeof change);
  const place = { file: text, line: 1, column: 1 };
  const rule = plan.changes.flatMap((change) => (change.kind === 'Rule' ? (change.desired?.rule ?? []) : []))[0];
  if (rule === undefined) throw new Error('no rule');
  const named = { rule, name: text, id: text, place };
  const problem = {
    code: 'expired' as const,
    severity: 'error' as const,
    summary: text,
    hint: text,
    place,
    excerpt: text,
  };
  const state: SidecarState = {
    status: { ...someStatus(text), server: text, holder: text },
    now: 0,
    plan: { ...reportOf({ ...plan, refusals, changes }, {}), userNames: new Map([[alice, text]]), root: text },
    userNames: new Map([[alice, text]]),
    problems: [problem],
    authors: new Map([['a'.repeat(40), text]]),
    forge: findForge('https://github.com/team/policy'),
    boundaries: [{ at: 0, what: 'ends', rule: named }],
    windows: [],
  };
  const packet = { destination: text, protocol: text, port: text, user: text };
  const found = [{ rule: named, name: text, what: text, text }];
  return renderSidecar(state, { words: text, total: 1, found, packet, answer: text, isSignedIn: true, script: '' });
}

/** Tags without the values of their attributes, as a browser reads them. */
const shapeOf = (page: string): string => (page.replace(/="[^"]*"/g, '=""').match(/<[a-z!/][^>]*>/gi) ?? []).join('');

it('values from manifests and servers never become markup', () => {
  const plain = shapeOf(pageWith('plain'));
  const hostile = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc
      .array(
        fc.constantFrom(
          '<',
          '>',
          '"',
          "'",
          '&',
          '=',
          '/',
          '`',
          'script',
          'img src=x onerror=1',
          '-->',
          ' ',
          '&lt;',
          '\u202e',
        ),
        {
          minLength: 1,
          maxLength: 8,
        },
      )
      .map((parts) => parts.join('')),
  );
  fc.assert(
    // A text that is no path of a file has no link; nothing else may differ.
    fc.property(
      hostile,
      (text) => shapeOf(pageWith(text)).replace(/<\/?a\b[^>]*>/g, '') === plain.replace(/<\/?a\b[^>]*>/g, ''),
    ),
    { numRuns: 60 },
  );
});

it('no text of a page makes a link that runs something', () => {
  for (const text of ['javascript:alert(1)', 'data:text/html,x', '//evil.example']) {
    const links = [...pageWith(text).matchAll(/href="([^"]*)"/g)].map(([, link = '']) => link);
    expect(
      links.filter(
        (link) => !/^(https:\/\/github\.com\/team\/policy\/|\/|api\/v1\/|data:,$)/.test(link) || link.startsWith('//'),
      ),
    ).toEqual([]);
  }
});
