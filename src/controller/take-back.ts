import { pickWorst, type Verdict } from './failure.ts';
import type { Leadership } from './leadership.ts';
import type { PassEnding, PublishableRun } from './pass-ending.ts';

/**
 * Takes back what nobody confirmed, whatever guards, windows and `--suspend` say: the confirmed revision is applied where its
 * content can be had, and then what it leaves is put back from the record of the applies, where there is one here.
 */
export async function runBack(
  lead: Leadership,
  revision: string,
): Promise<PublishableRun & Pick<PassEnding, 'content'>> {
  const { history, runner } = lead;
  const content = history.lastGood;
  const first =
    content === null ? null : await runner.run({ ...lead.order(content), back: 'confirmed', inEffect: null });
  const begin = (): Promise<null> => Promise.resolve(null);
  const rest = await runner.run({ ...lead.order({ revision, files: [] }), back: 'before', inEffect: null, begin });
  const isRecorded = rest.result?.failure?.code !== 'no-record';
  if (first === null) return { ...rest, ...(isRecorded ? {} : { verdict: notRecorded(rest.verdict) }), content };
  if (!isRecorded) return { ...first, content };
  const outcomes = [...first.outcomes, ...rest.outcomes];
  return { ...rest, verdict: pickWorst([first.verdict, rest.verdict]), outcomes, content };
}

/** Trying again brings nothing. */
function notRecorded({ reason, message }: Verdict): Verdict {
  return { kind: 'terminal', reason, message };
}
