import { describe, expect, it } from 'vitest';
import { judge } from '../../src/controller/failure.ts';
import { Secret } from '../../src/model/secret.ts';
import type { PassResult } from '../../src/pass.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { planInput } from '../plan/support.ts';

function inSync(secret: Secret): PassResult {
  const provider = {
    id: 'sso',
    label: 'SSO',
    scope: 'openid email profile',
    response_type: 'code',
    client_id: 'client',
    client_secret: secret,
    discovery_document_uri: 'https://sso.example/.well-known/openid-configuration',
    redirect_uri: null,
    auto_create_users: false,
  };
  const liveFields = { openid_connect_providers: [] };
  const plan = makePlan(planInput({ fields: { openid_connect_providers: [provider] }, liveFields }));
  return { end: 'in-sync', plan, problems: plan.problems } as unknown as PassResult;
}

describe('the verdict on a pass', () => {
  it('does not say that all is as asked for when a field differs and waits for a secret', () => {
    expect(judge(inSync(Secret.unknown()), null).message).toContain('needs a secret that is not available here');
    const { plan } = inSync(Secret.of('known'));
    expect(plan?.steps).toHaveLength(1);
  });
});
