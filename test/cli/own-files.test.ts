import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configuration, startWorld, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

const files: Readonly<Record<string, string>> = {
  'the API token': 'keys/api',
  'the Git token': 'keys/git',
  'the webhook secret': 'keys/hook',
  'a notification address': 'keys/slack',
  'a notification key': 'keys/generic',
  'the GitHub token': 'keys/github',
  'the lease’s token': 'keys/lease',
  'the settings': 'settings.yaml',
};

describe('row 29: files of the program’s own are no secrets for manifests, though their folder is allowed', () => {
  it.each(Object.entries(files))('%s', async (_, file) => {
    for (const name of Object.values(files)) world.write(name, 'canary\n');
    world.write('keys/allowed', 'an ordinary secret\n');
    world.write(
      'settings.yaml',
      `tokenFile: keys/api
gitTokenFile: keys/git
webhookSecretFile: keys/hook
secrets: {dirs: [.]}
kubernetes: {server: "https://localhost", tokenFile: keys/lease}
notify:
  - {type: slack, urlFile: keys/slack}
  - {type: generic, url: "https://example.org", secretFile: keys/generic}
  - {type: github-status, repository: a/b, tokenFile: keys/github}
`,
    );
    const validate = async (secret: string) => {
      world.write(
        'm/c.yaml',
        configuration(
          `openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {file: ${secret}}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}`,
        ),
      );
      return world.cli(['validate', 'm', '--config', 'settings.yaml', '--output', 'json']);
    };
    expect((await validate(`${world.folder}/keys/allowed`)).code).toBe(0);
    const refused = await validate(`${world.folder}/${file}`);
    expect(refused.json().problems.map(({ code }) => code)).toEqual(['secret-not-allowed']);
    expect(refused.out).not.toContain('canary');
  });
});
