import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { findProfile } from '../../src/model/profile.ts';
import type { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { desiredRules, liveRules, planInput } from './support.ts';

const root = join(import.meta.dirname, '../../src');

/** `makePlan` of a copy of the sources in which rules have one more field, `comment`, in the table of `model/rule.ts` and nowhere else. */
async function makePlanWithComment(): Promise<typeof makePlan> {
  const text = readFileSync(join(root, 'model/rule.ts'), 'utf8');
  const table = 'const ruleFields = {\n';
  expect(text).toContain(table);
  const field = `comment: {
    sorts: 4,
    compare: (a, b) => compareText(a.comment, b.comment),
    key: ({ comment }) => comment,
    wire: { comment: ({ comment }) => comment },
  },`;
  const { outputFiles } = await build({
    entryPoints: [join(root, 'plan/make-plan.ts')],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    plugins: [
      {
        name: 'one more field',
        setup: ({ onLoad }) =>
          onLoad({ filter: /model\/rule\.ts$/ }, () => ({
            contents: text.replace(table, table + field),
            loader: 'ts',
          })),
      },
    ],
  });
  const code = Buffer.from(outputFiles[0]?.contents ?? []).toString('base64');
  return (await import(/* @vite-ignore */ `data:text/javascript;base64,${code}`)).makePlan;
}

describe('a new field of rules, added in the one table', () => {
  const commented = <T extends { readonly rule: object }>(items: readonly T[], ...comments: readonly string[]): T[] =>
    items.map((item, index) => ({ ...item, rule: { ...item.rule, comment: comments[index] ?? '' } }));

  it.each(['patch', 'replace'] as const)('is compared, shown and sent: %s', async (ruleUpdates) => {
    const plan = (await makePlanWithComment())(
      planInput(
        {
          desired: commented(desiredRules('drop 10.0.0.0/8', 'drop 11.0.0.0/8'), 'new', 'same'),
          live: commented(liveRules('drop 10.0.0.0/8', 'drop 11.0.0.0/8'), 'old', 'same'),
        },
        { profile: findProfile('firezone-0.7', ruleUpdates) },
      ),
    ) as Plan;
    expect(plan.changes.map(({ action }) => action)).toEqual(['update', 'keep']);
    expect(plan.changes[0]?.fields).toEqual({ comment: { before: 'old', after: 'new' } });
    expect(plan.steps.map(({ type }) => type)).toEqual(ruleUpdates === 'patch' ? ['update'] : ['delete', 'create']);
  });

  it('tells rules apart that differ in nothing else', async () => {
    const live = commented(liveRules('drop 10.0.0.0/8', 'drop 10.0.0.0/8'), 'a', 'b');
    const plan = (await makePlanWithComment())(
      planInput({ desired: commented(desiredRules('drop 10.0.0.0/8'), 'b'), live }),
    );
    expect(plan.changes.map(({ action, id }) => [action, id])).toEqual([
      ['delete', 'l1'],
      ['keep', 'l2'],
    ]);
  });
});
