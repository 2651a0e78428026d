import { join, normalize } from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { decodeText } from '../../manifest/read-manifests.ts';
import { setExpires } from '../../manifest/set-expires.ts';
import { didYouMean } from '../../manifest/suggest.ts';
import { formatInstant } from '../../model/instant.ts';
import { escapeControls, joinSome } from '../../model/printable.ts';
import type { DesiredRule } from '../../model/rule.ts';
import { type DesiredState, listAllRules } from '../../model/state.ts';
import { type Answer, exitCodes, Failure, type Invocation, makeFailure } from '../command.ts';
import { buildFiles, readTimeAsked } from '../manifests.ts';
import { mustBeManifests, type NamedManifest, readManifestFiles } from '../path-operand.ts';
import { replaceNamed } from '../read-file.ts';

/** `reconcile extend SET/RULE [PATH] --until DATE`: writes a later `expires` into its file, and nothing else. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  const [name, written = '.'] = operands;
  const asked = readTimeAsked(settings, 'until');
  if (name === undefined || asked === null || written === '-') {
    const hint = 'reconcile extend SET/RULE policy --until 2026-12-31';
    throw makeFailure('usage', 'extend takes the name of a rule or set, and --until', hint);
  }
  const until = settings.until ?? '';
  if (asked <= systemClock.wallTime())
    throw makeFailure('usage', `--until ${until} has passed`, 'to end a rule now, remove it');
  const files = await readManifestFiles({ ...invocation, operands: [written] });
  // Files are named with PATH here, and so is the overlay.
  const overlay = settings.overlay === null ? null : join(written, settings.overlay).replace(/\/+$/, '');
  const build = async (these: readonly NamedManifest[]): Promise<DesiredState> => {
    const built = await buildFiles({ ...invocation, settings: { ...settings, overlay } }, these, terminal.cwd);
    if (built.state !== null) return built.state;
    const command = (below: string): string => `reconcile extend ${name} ${below} --until ${until}`;
    const named = these.map(({ shown: path, bytes }) => ({ path, bytes }));
    if (written === '.') mustBeManifests(built.problems, named, command);
    throw new Failure(built.problems, exitCodes.invalid);
  };
  const before = await build(files);
  const places = new Set(rulesNamed(before, name).map(({ place }) => place.file));
  const edited = files.flatMap((file) => {
    // With an overlay, only where it takes the rule from.
    const isSource = settings.overlay === null ? places.size > 0 : places.has(normalize(file.shown));
    const text = isSource ? decodeText(file.bytes) : null;
    const next = text === null ? null : setExpires(text, name, until);
    return next === null ? [] : [{ ...file, ...next, bytes: new TextEncoder().encode(next.text) }];
  });
  const [one] = edited;
  if (one === undefined || edited.length > 1) throw explainNotFound(name, edited, before);
  const after = await build(files.map((file) => (file.path === one.path ? one : file)));
  const { former = findLastEnd(before, name), latest = findLastEnd(after, name) } = one;
  if (latest < former)
    throw makeFailure('usage', `${name} already ends later, at ${formatInstant(former)}`, `edit ${one.shown} by hand`);
  // Dates are those of the document's own time zone, where the day may end 14 hours earlier: what the manifests then say counts.
  if (latest < asked - (until.includes(':') ? 0 : 14 * 3_600_000)) {
    const hint = `extend its set first: ${name.split('/')[0]}`;
    throw makeFailure('usage', `${name} would end at ${formatInstant(latest)} all the same`, hint);
  }
  await replaceNamed(one.path, one.text, 'PATH');
  const text = `${one.shown}: ${name} ends at ${formatInstant(latest)}, not ${formatInstant(former)}`;
  return { text: () => `${escapeControls(text + tellEarlier(rulesNamed(after, name), latest))}\n` };
}

function tellEarlier(rules: readonly DesiredRule[], latest: number): string {
  const earlier = rules.filter(({ expires = latest }) => expires < latest).map(({ name }) => name);
  return earlier.length === 0 ? '' : `; earlier, by their own \`expires\`: ${joinSome(earlier, 5)}`;
}

function rulesNamed(state: DesiredState, name: string): readonly DesiredRule[] {
  return listAllRules(state).filter((rule) => rule.name === name || rule.name.startsWith(`${name}/`));
}

function findLastEnd(state: DesiredState, name: string): number {
  return rulesNamed(state, name).reduce((last, { expires = 0 }) => Math.max(last, expires), 0);
}

function explainNotFound(name: string, edited: readonly NamedManifest[], before: DesiredState): Failure {
  if (edited.length > 1) {
    const places = edited.map(({ shown }) => shown).join(', ');
    return makeFailure('unknown-rule', `${name} is in several files: ${places}`, 'name the file as PATH');
  }
  if (rulesNamed(before, name).length > 0) {
    const other = name.includes('/')
      ? 'extend its set, or the line that makes it, SET/RULE'
      : 'extend a rule of it, SET/RULE';
    const hint = `${other}; or write \`expires\` by hand (where it is a value, in the --values file)`;
    return makeFailure('unknown-rule', `${name} has no end of its own that can be edited here`, hint);
  }
  const known = listAllRules(before).map((rule) => rule.name);
  const hint = didYouMean(name, known, '`reconcile expiring PATH --within 520w` lists those with an end');
  return makeFailure('unknown-rule', `there is no rule or set ${name} with an end here`, hint);
}
