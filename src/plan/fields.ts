import { type LiveRule, type Rule, toWire, wireFields } from '../model/rule.ts';
import type { FieldChange, FieldValue } from './plan.ts';

type Fields = Readonly<Record<string, FieldChange>>;

export const noFields: Fields = Object.freeze({});

/** The fields of a rule that is created: nothing before. */
export function listCreatedFields(rule: Rule): Fields {
  return mapFields(toWire(rule), (after) => ({ before: null, after }));
}

/** The fields of a rule that is deleted: nothing after; the destination as the server stores it. */
export function listDeletedFields(live: LiveRule): Fields {
  const wire = { ...toWire(live.rule), destination: live.destinationText };
  return mapFields(wire, (before) => ({ before, after: null }));
}

/** The fields in which two rules differ; the destination before as the server stores it. */
export function listUpdatedFields(live: LiveRule, rule: Rule): Fields {
  const [before, after] = [toWire(live.rule), toWire(rule)];
  const fields: Record<string, FieldChange> = {};
  for (const name of wireFields) {
    if (before[name] === after[name]) continue;
    fields[name] = { before: name === 'destination' ? live.destinationText : before[name], after: after[name] };
  }
  return fields;
}

function mapFields(wire: object, change: (value: FieldValue) => FieldChange): Fields {
  return Object.fromEntries(Object.entries(wire).map(([name, value]) => [name, change(value as FieldValue)]));
}
