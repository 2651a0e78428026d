import { systemClock } from '../../adapters/clock.ts';
import { StateFiles } from '../../adapters/state-files.ts';
import { escapeControls } from '../../model/printable.ts';
import { formatRuleKey, type Rule } from '../../model/rule.ts';
import type { ApplyRecord } from '../../pass/history.ts';
import { formatRule } from '../../policy/words.ts';
import { renderDocument } from '../../report/json.ts';
import { count } from '../../report/summary.ts';
import { lineToType } from '../arguments.ts';
import { type Answer, type Invocation, makeFailure, mustHave, type Settings } from '../command.ts';
import { loadRecord, type NumberedRecord, pruneHistory, refuseFolder, walkHistory } from '../history.ts';
import { findStateFolder } from '../last-apply.ts';

/** `reconcile history [show N]`: the applies of the state folder, the newest first. Needs no server and no token. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings } = invocation;
  const files = findHistory(invocation);
  const [word, number] = operands;
  if (word === 'show' && number !== undefined) return show(settings, await findRecord(files, number));
  if (word !== undefined) throw makeFailure('usage', 'history takes nothing, or `show N`', 'reconcile history show 3');
  if (settings.forget) {
    const removed = await pruneHistory(files).catch(refuseFolder(files, 'pruned'));
    return { text: () => `${count(removed, 'record')} removed from ${files.folder}.\n` };
  }
  const shown: [line: string, document: unknown][] = [];
  const showBroken = (number: number, error: string) =>
    void shown.push([`${String(number).padStart(4)}  cannot be read or undone\n`, { number, error }]);
  // One after another: each may be large.
  for await (const record of walkHistory(files, showBroken)) shown.push([lineOf(record), documentOf(record)]);
  return {
    text: () => shown.map(([line]) => line).join('') || `No applies are recorded in ${files.folder}.\n`,
    document: () => renderDocument({ applies: shown.map(([, document]) => document) }, []),
  };
}

/** Where the history lies; throws a `Failure` that says how to name it. */
export function findHistory(invocation: Invocation): StateFiles {
  const folder = findStateFolder(invocation);
  if (folder !== null) return new StateFiles(folder, 'history');
  const first = invocation.settings.baseUrl === null ? '--base-url, or ' : '';
  const hint = `give ${first}the --state-dir of the applies (in CI, or without HOME, nothing is kept without it)`;
  throw makeFailure('state', 'there is no state folder to read the history from', hint);
}

/** The record of an apply by its number, as a person writes it. */
export async function findRecord(files: StateFiles, text: string): Promise<NumberedRecord> {
  const hint = '`reconcile history` lists them';
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw makeFailure('usage', `\`${escapeControls(text)}\` is not the number of an apply`, hint);
  return mustHave(await loadRecord(files, Number(text)), 'state', hint);
}

function lineOf({ number, at, by, revision, end, created, deleted, fields }: NumberedRecord): string {
  const from = revision === null ? '' : `, from ${revision.replace(/([0-9a-f]{12})[0-9a-f]{28,}/, '$1')}`;
  const changes = [
    ...(created.length === 0 ? [] : [`${created.length} created`]),
    ...(deleted.length === 0 ? [] : [`${deleted.length} deleted`]),
    ...(fields.length === 0 ? [] : [`${count(fields.length, 'field')} of the Configuration`]),
  ];
  const line = `${String(number).padStart(4)}  ${at.slice(0, 19)}Z  ${changes.join(', ') || 'no changes'}, by ${by}${from}: ${end}`;
  return `${escapeControls(line)}\n`;
}

function show(settings: Settings, record: NumberedRecord): Answer {
  const { number, created, deleted, said, fields } = record;
  const nameOf = (rule: Rule): string | null => said.get(formatRuleKey(rule))?.name ?? null;
  const listed = (sign: string, rules: ApplyRecord['created']): readonly string[] =>
    rules.map(({ rule }) => {
      const name = nameOf(rule);
      return `  ${sign} ${formatRule(rule, new Map())}${name === null ? '' : `  (${escapeControls(name)})`}\n`;
    });
  const lines = [...listed('+', created), ...listed('-', deleted), ...fields.map((field) => `  ~ ${field}\n`)];
  const detailsOf = (rules: ApplyRecord['created']): unknown =>
    rules.map(({ id, rule }) => ({ id, rule: formatRuleKey(rule), name: nameOf(rule) }));
  const details = { ...documentOf(record), created: detailsOf(created), deleted: detailsOf(deleted) };
  const now = systemClock.wallTime();
  const left = deleted.filter(({ rule }) => (said.get(formatRuleKey(rule))?.expires ?? now + 1) > now);
  const isOver = created.length + fields.length + left.length === 0;
  const undo = lineToType(`undo ${number}`, settings);
  const how = isOver ? 'Nothing to put back: it has expired.' : `To put it back: ${escapeControls(undo)}`;
  const text = `${lineOf(record).trimStart()}${lines.join('')}\n${how}\n`;
  return { text: () => text, document: () => renderDocument(details, []) };
}

function documentOf({ number, at, by, server, revision, digest, end, created, deleted, fields }: NumberedRecord) {
  return { number, at, by, server, revision, digest, end, created: created.length, deleted: deleted.length, fields };
}
