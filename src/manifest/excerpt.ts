import { getOrMake } from '../model/group-by.ts';
import type { Place, Problem } from '../model/problem.ts';

/** Signs that a file may hold a secret, misspelt field names included. */
const suspicious = /configuration|secret|saml|oidc|openid|client|token|passw|<\?xml|entitydescriptor/i;

/** In such a file only lines of this form are shown: one known, harmless field with a simple value. */
const harmless =
  /^\s*(?:-\s+)?(?:apiVersion|kind|name|action|destination|port_range|port_type|user|user_id|group|network|vpn_session_duration|local_auth_enabled|disable_vpn_on_oidc_error|allow_unprivileged_\w+|default_client_\w+|response_type|auto_create_users|sign\w+)\s*:\s*[\w.:/@ -]{0,80}$/;

/** Shows lines of one file, except those that may hold a secret. */
export function createExcerpts(
  text: string,
  contentOf: (line: number) => string,
): (line: number, yamlIsBroken: boolean) => string | undefined {
  const careful = suspicious.test(text);
  return (line, yamlIsBroken) => {
    if (careful && yamlIsBroken) return undefined;
    const content = contentOf(line);
    if (careful && !harmless.test(content)) return undefined;
    return content.length > 200 ? undefined : content;
  };
}

/** Adds the manifest line to problems that have a place and no line yet, where that is safe. */
export function addExcerpts(
  problems: readonly Problem[],
  textOf: (file: string) => string | undefined,
): readonly Problem[] {
  const lines = new Map<string, ReturnType<typeof createExcerpts>>();
  const excerptAt = ({ file, line }: Place): string | undefined => {
    const excerpt = getOrMake(lines, file, () => {
      const text = textOf(file) ?? '';
      const content = text.split(/\r?\n/);
      return createExcerpts(text, (number) => content[number - 1] ?? '');
    });
    return excerpt(line, false);
  };
  return problems.map((problem) => {
    if (problem.place === undefined || problem.excerpt !== undefined || withheld.has(problem.code)) return problem;
    const excerpt = excerptAt(problem.place);
    return excerpt === undefined ? problem : { ...problem, excerpt };
  });
}

/** Found where the text is no YAML or no UTF-8: no line of such a file is safe to show later. */
const withheld: ReadonlySet<string> = new Set(['invalid-yaml', 'not-utf8', 'too-deep', 'too-expensive']);
