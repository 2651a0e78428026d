import type { ConfigurationField, ConfigurationFields } from '../../model/configuration.ts';
import { isInScope } from '../../model/state.ts';
import type { Effect } from '../../policy/traffic.ts';
import type { ConfigurationDecision } from '../decide-configuration.ts';
import type { DeleteLimit, PlanInput } from '../input.ts';
import type { Change, Exposure, Refusal } from '../plan.ts';
import { collisionRefusals } from './guard-collisions.ts';
import { secretRefusals } from './guard-secrets.ts';
import { policyTestRefusals } from './guard-tests.ts';
import { protectRefusals } from './guard-traffic.ts';

/** What the guards judge. */
export interface Guarded {
  readonly input: PlanInput;
  readonly changes: readonly Change[];
  readonly configuration: ConfigurationDecision | null;
  readonly effect: Effect;
  readonly exposure: readonly Exposure[];
}

/** Every guard's refusals, in a fixed order; empty when the plan may be applied. */
export function guardPlan(guarded: Guarded): readonly Refusal[] {
  return [
    ...collisionRefusals(guarded.input, guarded.changes),
    ...deleteRefusals(guarded),
    ...lockoutRefusals(guarded),
    ...secretRefusals(guarded.input, guarded.configuration),
    ...protectRefusals(guarded),
    ...policyTestRefusals(guarded.input, guarded.changes, guarded.exposure),
    ...exposureRefusals(guarded),
    ...failOnRefusals(guarded),
  ];
}

/** From this many live rules in scope a share counts, and so does the loss of all of them. */
const enoughRules = 10;

function deleteRefusals({ input, changes }: Guarded): readonly Refusal[] {
  const live = input.live.rules.filter(({ rule }) => isInScope(rule, input.scope)).length;
  const vanishing = changes.filter(({ action }) => action === 'delete').length;
  const remaining = changes.some(({ kind, action }) => kind === 'Rule' && action !== 'delete' && action !== 'skip');
  const refusals: Refusal[] = [];
  const all = live > 0 && vanishing === live;
  if (all && !input.options.allowEmpty && (!remaining || live >= enoughRules)) {
    refusals.push({
      code: 'deletes-everything',
      summary: `All ${live} live rules in scope would be deleted${remaining ? '' : ' and none would remain'}.`,
      hint: 'Check the path of the manifests and the scope; `--allow-empty` allows it.',
    });
  }
  if (exceeds(vanishing, live, input.options.maxDeletes)) {
    const share = `${vanishing} of ${live} live rules in scope (${percent(vanishing / live)})`;
    refusals.push({
      code: 'too-many-deletes',
      summary: `${share} would be deleted; the limit is ${limitText(input.options.maxDeletes)}.`,
      hint: `Check the deletes; \`--max-deletes ${vanishing}\` allows them.`,
    });
  }
  return refusals;
}

function exceeds(vanishing: number, live: number, limit: DeleteLimit): boolean {
  if ('count' in limit) return vanishing > limit.count;
  return (live >= enoughRules || limit.share === 0) && vanishing > limit.share * live;
}

function limitText(limit: DeleteLimit): string {
  return 'count' in limit ? String(limit.count) : percent(limit.share);
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10}%`;
}

const signInFields: readonly ConfigurationField[] = [
  'local_auth_enabled',
  'openid_connect_providers',
  'saml_identity_providers',
];

/** Judges the Configuration that results: live fields overlaid with those that are sent. */
function lockoutRefusals({ input, configuration }: Guarded): readonly Refusal[] {
  if (configuration === null || input.options.allowLockout) return [];
  const { change, sent } = configuration;
  if (change.live === null || !sent.some((field) => signInFields.includes(field))) return [];
  const written = Object.fromEntries(sent.map((field) => [field, change.desired.fields[field]]));
  if (!leavesNoSignIn({ ...change.live.fields, ...written })) return [];
  return [
    {
      code: 'locks-out',
      summary: 'The configuration would leave no way to sign in: local sign-in off, no OIDC and no SAML provider.',
      hint: 'Keep `local_auth_enabled: true` or a provider; `--allow-lockout` allows it.',
      related: sent
        .filter((field) => signInFields.includes(field))
        .map((field) => ({
          place: change.desired.places[field] ?? change.desired.place,
          note: `\`${field}\` is set here`,
        })),
    },
  ];
}

/** Whether nobody can sign in to the administration with this configuration. */
export function leavesNoSignIn(fields: ConfigurationFields): boolean {
  const providers = fields.openid_connect_providers.length + fields.saml_identity_providers.length;
  return fields.local_auth_enabled !== true && providers === 0;
}

function exposureRefusals({ input, exposure }: Guarded): readonly Refusal[] {
  const opened = exposure.filter(({ direction }) => direction === 'opened');
  if (input.options.maxExposure !== 'none' || opened.length === 0) return [];
  const longest = opened.reduce((most, { expectedMs }) => Math.max(most, expectedMs), 0);
  const gaps = opened.length === 1 ? 'once' : `${opened.length} times`;
  return [
    {
      code: 'opens-on-the-way',
      summary: `Traffic that is dropped before and after would pass ${gaps} on the way, for up to about ${longest} ms.`,
      hint: 'The exposure of the plan lists it; `--max-exposure any` allows it.',
    },
  ];
}

function failOnRefusals({ input, changes, configuration, effect }: Guarded): readonly Refusal[] {
  const rules = changes.filter(({ kind, origin }) => kind === 'Rule' && origin === 'drift').length;
  const drifted = rules + (configuration === null || configuration.drifted.length === 0 ? 0 : 1);
  return input.options.failOn.flatMap((what) => {
    const found = {
      opens: effect.opens.length > 0 ? 'The plan opens traffic.' : null,
      closes: effect.closes.length > 0 ? 'The plan closes traffic.' : null,
      any: effect.opens.length + effect.closes.length > 0 ? 'The plan changes traffic.' : null,
      'not-enforced': input.kernelDiffers ?? null,
      drift: drifted > 0 ? `${drifted} ${drifted === 1 ? 'difference is' : 'differences are'} drift.` : null,
    }[what];
    const hint = `Asked for by \`--fail-on ${what}\`; run without it to go on.`;
    return found === null ? [] : [{ code: `fail-on-${what}`, summary: found, hint }];
  });
}
