import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { type ConfigurationField, type LiveConfiguration, losesSignIn, signInFields } from '../model/configuration.ts';
import { makeError, type Place, type Problem } from '../model/problem.ts';
import { fail, ok, omitUndefined } from '../model/result.ts';
import { compareField, hasChanged } from '../plan/diff-configuration.ts';
import type { ConfigureStep } from '../plan/plan.ts';
import type { ApiAnswer } from '../ports.ts';
import { describeAnswer, readErrors, readFieldMessages } from './answer-text.ts';
import { isSuccess, judgeSettled, type Settled } from './outcome.ts';
import { readConfiguration } from './read.ts';
import type { Session } from './session.ts';
import { sendWrite, type WriteOrder } from './write.ts';

const request = 'PATCH /v0/configuration';
/** What lets people in without their providers. */
const gives: Record<string, boolean> = { local_auth_enabled: true, disable_vpn_on_oidc_error: false };

/**
 * PATCHes the Configuration with the fields that differ. While a provider's document cannot be read, new or stored, the server refuses all
 * that comes with providers (observed: recordings/configuration_oidc): going back sends before what lets people sign in, and the rest.
 */
export async function configure(step: ConfigureStep, order: WriteOrder): Promise<Settled> {
  const { before, desired, fields } = step;
  const isFirst = (field: ConfigurationField): boolean =>
    field in gives ? desired.fields[field] === gives[field] : !signInFields.some((one) => one === field);
  const [first, last] = [fields.filter(isFirst), fields.filter((field) => !isFirst(field))];
  const isBack = order.session.context.goesBack || desired.place.line === 0; // also an undo
  if (!isBack || first.length === 0 || !last.includes('openid_connect_providers')) return sendUnpinned(step, order);
  const begun = await sendUnpinned({ ...step, fields: first }, order);
  // What may pass is sent again before anything that may take away a way to sign in, and the last one stays.
  if (['soon', 'replanned'].includes(judgeSettled(begun).again)) return begun;
  if (!isSuccess(begun) && losesSignIn(before, desired, last)) return { ...begun, surprise: true };
  const taken = isSuccess(begun) ? begun.fields.map((field) => [field, desired.fields[field]]) : [];
  const between = { ...before, fields: { ...before.fields, ...Object.fromEntries(taken) } };
  const ended = await sendUnpinned({ ...step, before: between, fields: last }, order);
  const isOver = isSuccess(ended) || (!isSuccess(begun) && judgeSettled(ended).again === 'replanned');
  const told = isOver ? { ...begun, surprise: !isSuccess(ended) } : ended;
  return { ...told, fields: [...begun.fields, ...ended.fields] };
}

/**
 * When the server's environment pins some of the fields it refuses the whole request (observed: recordings/configuration_env_override):
 * then the others are sent alone, once the lock-out guard has passed on what that would leave; else nothing is sent. A pinned field
 * fails the step, with its own problem.
 */
async function sendUnpinned(step: ConfigureStep, order: WriteOrder) {
  const { session } = order;
  const { desired, before } = step;
  const [settled, pinned] = await patch(step, order);
  if (pinned.length === 0) return settled;
  for (const { field, by } of pinned) {
    const summary = `\`${field}\` cannot be changed through the API: the server's environment variable ${by} pins it.`;
    const hint = `Remove \`${field}\` from the manifest, or ${by} from the server's environment.`;
    session.problems.push(makeError('field-pinned', summary, hint, desired.places[field] ?? desired.place));
  }
  const names = pinned.map(({ field }) => field).join(', ');
  const rest = step.fields.filter((field) => !pinned.some((one) => one.field === field));
  if (rest.length === 0) return { ...settled, message: `${request}: pinned by the server's environment: ${names}` };
  if (!session.context.allowLockout && losesSignIn(before, desired, rest)) {
    const summary = `Without the pinned ${names} the Configuration would leave no way to sign in: nothing of it was sent.`;
    const hint = 'Keep `local_auth_enabled: true` or a provider; `--allow-lockout` allows it.';
    session.problems.push(makeError('locks-out', summary, hint, desired.place));
    return { ...settled, message: `${request}: nothing was sent, for without ${names} nobody could sign in` };
  }
  const [second] = await patch({ ...step, fields: rest }, order);
  const message = `${request}: all but ${names}, pinned by the server's environment`;
  return second.outcome === 'done' ? { ...second, outcome: 'failed' as const, message } : second;
}

/** Says why a step is planned again: others changed its fields, or the ways to sign in, since. Null: it is sent. */
function judge(step: ConfigureStep, now: LiveConfiguration, { problems }: Session) {
  const { desired, before, fields } = step;
  // Local sign-in that was turned on takes nothing away; where this apply goes back, its first request did it.
  const ways = now.fields.local_auth_enabled === true ? signInFields.slice(1) : signInFields;
  const others = [...new Set([...ways, ...fields])].filter((field) => hasChanged(field, before, now));
  if (others.length === 0) return null;
  const putBack = select(step, 'same', now);
  const isLeft = (field: ConfigurationField) => others.includes(field) && !putBack.includes(field);
  const left = desired.place.line === 0 ? fields.filter(isLeft).join(', ') : '';
  const summary = `Not undone: ${left} was changed again meanwhile.`;
  if (left !== '') problems.push({ code: 'changed-since', severity: 'note', summary });
  const message = `${request}: planned again, for others changed ${others.join(', ')} meanwhile`;
  return { outcome: 'failed', status: null, surprise: true, message } satisfies Settled;
}

/** Sends the fields; with the fields for which the server refused the request. */
async function patch(step: ConfigureStep, order: WriteOrder) {
  const { session } = order;
  const body = bodyOf(step);
  let pinned: ReturnType<typeof pinnedFields> = [];
  const settled = await sendWrite(order, {
    method: 'PATCH',
    path: '/v0/configuration',
    // Rules, and what the server makes us wait, take their time: an administrator may have turned off the only other way to sign in.
    check: async (sentBefore) => {
      const read = await readConfiguration({ ...session.reading, signal: session.soft });
      if (!read.ok) return { ...read.error, outcome: 'failed', noAnswer: read.error.code, surprise: true };
      if (select(step, 'differs', read.value).length === 0 && sentBefore) return { outcome: 'done', status: null };
      return judge(step, read.value, session);
    },
    call: (signal) => session.context.api.updateConfiguration(body, signal),
    accept: (answer) => acceptConfigured(step, answer),
    refuse: (answer) => {
      pinned = pinnedFields(answer, step.fields);
      return pinned.length === 0 ? settleRefused(step, answer, session.context.goesBack) : null;
    },
    find: async ({ status }) => {
      const read = await readConfiguration(session.reading);
      if (!read.ok) return fail(read.error.message);
      if (select(step, 'differs', read.value).length === 0) return ok({ outcome: 'done', status });
      // An attempt that was sent may have been carried out after all.
      const others = judge(step, read.value, session);
      return ok(others && { ...others, outcome: 'unknown' });
    },
  });
  return [{ ...settled, fields: judgeSettled(settled).mayBeDone ? step.fields : [] }, pinned] as const;
}

/** The server counts providers from the first that it had (observed: recordings/configuration_oidc); the problem names ours. */
function settleRefused({ desired }: ConfigureStep, answer: ApiAnswer, goesBack = false): Settled {
  let place: Place | undefined;
  const nameField = (path: string): string => {
    const field = providerFields.find((one) => path.startsWith(one));
    const [, counted, rest] = /\[(\d+)\](.*)$/.exec(path) ?? [];
    if (field === undefined || counted === undefined) return path;
    const sent = desired.fields[field] ?? [];
    const wrong = readErrors(answer.body)[field];
    const index = Number(counted) - Math.max(0, (Array.isArray(wrong) ? wrong.length : 0) - sent.length);
    place ??= desired.places[`${field}[${index}]`] ?? desired.places[field];
    return `${field}[${index}]${rest} (id \`${sent[index]?.id ?? 'unknown'}\`)`;
  };
  const message = describeAnswer(answer, request, nameField);
  // Where nothing goes back, a document that can be read and is wrong stays so.
  const unread = goesBack
    ? /discovery_document_uri /
    : /discovery_document_uri .*(%Mint\.TransportError|\{(429|5\d\d),)/;
  const told = [...readFieldMessages(answer.body)].map(([field, texts]) => `${field} ${texts.join(' ')}`);
  const noAnswer = told.length > 0 && told.every((text) => unread.test(text)) ? { noAnswer: 'provider' } : {};
  const hint = "mend this provider in the manifest; a discovery document must answer from the server's network";
  const problem = place && { problem: makeError('step-rejected', message, hint, place) };
  return { outcome: 'failed', status: answer.status, message, ...noAnswer, ...problem };
}

const providerFields = ['openid_connect_providers', 'saml_identity_providers'] as const;

/** Null when the answer cannot be read. */
function acceptConfigured(step: ConfigureStep, answer: ApiAnswer): Settled | null {
  const decoded = decodeLiveConfiguration(answer.body);
  if (!decoded.ok) return null;
  const wrong = select(step, 'differs', decoded.value);
  if (wrong.length === 0) return { outcome: 'done', status: answer.status };
  const message = `${request}: answered ${answer.status}, but the server did not take ${wrong.join(', ')}`;
  const problem: Problem = { code: 'answer-differs', severity: 'error', summary: message };
  return { outcome: 'failed', status: answer.status, message, problem };
}

/** The fields that are known to be as desired, or not to be. */
function select({ desired, fields }: ConfigureStep, how: 'same' | 'differs', live: LiveConfiguration) {
  return fields.filter((field) => {
    const wanted = desired.fields[field];
    return wanted !== undefined && compareField(field, wanted, live.fields[field]) === how;
  });
}

/** The fields as the API spells them; secrets stay `Secret` until the adapter makes bytes of them. */
function bodyOf({ desired, fields }: ConfigureStep): Readonly<Record<string, unknown>> {
  const { logo, saml_identity_providers: saml, ...plain } = desired.fields;
  const body = {
    ...plain,
    logo: logo && Object.fromEntries(Object.entries(logo).filter(([, value]) => value !== null)),
    // A base URL that is left to the server is not sent.
    saml_identity_providers: saml?.map((one) => omitUndefined({ ...one, base_url: one.base_url ?? undefined })),
  };
  return Object.fromEntries(fields.map((field) => [field, body[field]]));
}

/** The fields that the server's environment pins, each with the name of the variable. */
function pinnedFields({ status, body }: ApiAnswer, fields: readonly ConfigurationField[]) {
  if (status !== 422) return [];
  return [...readFieldMessages(body)].flatMap(([name, texts]) => {
    const field = fields.find((one) => one === name);
    const by = texts.map((text) => /overridden by ([A-Z0-9_]+) environment variable/.exec(text)?.[1]).find(Boolean);
    return field === undefined || by === undefined ? [] : [{ field, by }];
  });
}
