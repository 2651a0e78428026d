import { compareProblems, makeError, type Problem } from '../model/problem.ts';
import { addExcerpts } from './excerpt.ts';
import { parseFile } from './parse.ts';

/**
 * Reads a `--values` file: one YAML mapping of names to texts, numbers and booleans. `values`: by name; null when something is
 * wrong with it. `path` is for messages.
 */
export function readValues(path: string, text: string) {
  const values = new Map<string, string>();
  const wrong: Problem[] = [];
  let documents = 0;
  const problems = parseFile({
    path,
    text,
    values: null,
    onDocument(root, { place }) {
      documents++;
      const reject = (offset: number): void => {
        const summary = 'A values file is one mapping of names to texts, numbers or booleans.';
        const hint = 'Write one `name: value` a line; names have letters, digits and `_ . -`.';
        wrong.push(makeError('invalid-values', summary, hint, place(offset)));
      };
      if (documents > 1 || root.type !== 'map') reject(root.start);
      else {
        for (const { key, keyStart, value } of root.entries) {
          const fits = /^[A-Za-z_][A-Za-z0-9_.-]*$/.test(key) && value.type === 'scalar' && value.value !== null;
          if (fits) values.set(key, value.text);
          else reject(keyStart);
        }
      }
    },
  });
  const all = [...addExcerpts(problems, () => text), ...wrong].sort(compareProblems);
  return { values: all.length === 0 ? values : null, problems: all };
}
