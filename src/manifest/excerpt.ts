import { getOrMake } from '../model/group-by.ts';
import type { Problem } from '../model/problem.ts';

/** Signs that a file may hold a secret, misspelt field names included. */
const suspicious = /configuration|secret|saml|oidc|openid|client|token|passw|<\?xml|entitydescriptor/i;

/** In such a file only lines of this form are shown: one known, harmless field with a simple value. */
const harmless =
  /^\s*(?:-\s+)?(?:apiVersion|kind|name|action|destination|port_range|port_type|user|user_id|group|network|vpn_session_duration|local_auth_enabled|disable_vpn_on_oidc_error|allow_unprivileged_\w+|default_client_\w+|response_type|auto_create_users|sign\w+)\s*:\s*[\w.:/@ -]{0,80}$/;

/** Found where the text may be no YAML, so that a line may be a piece of a longer value. */
const broken: ReadonlySet<string> = new Set(['invalid-yaml', 'too-deep', 'too-expensive']);

/** Adds the manifest line to problems that have a place, except a line that may hold a secret. */
export function addExcerpts(problems: readonly Problem[], textOf: (file: string) => string | undefined) {
  const files = new Map<string, { readonly lines: readonly string[]; readonly isSuspicious: boolean }>();
  return problems.map((problem): Problem => {
    const { code, place } = problem;
    if (place === undefined || code === 'not-utf8') return problem;
    const { lines, isSuspicious } = getOrMake(files, place.file, () => {
      const text = textOf(place.file) ?? '';
      return { lines: text.split(/\r?\n/), isSuspicious: suspicious.test(text) };
    });
    const excerpt = lines[place.line - 1] ?? '';
    const isSafe = !isSuspicious || (harmless.test(excerpt) && !broken.has(code));
    return isSafe && excerpt.length <= 200 ? { ...problem, excerpt } : problem;
  });
}
