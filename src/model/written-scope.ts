import { type Network, parseNetwork } from './address.ts';
import type { Problem } from './problem.ts';
import { type Scope, wholeScope } from './state.ts';

/** A scope as operators write it; what is left out does not restrict. */
export interface WrittenScope {
  readonly rules?: boolean | undefined;
  readonly configuration?: boolean | undefined;
  /** UUIDs, or `global` for rules of nobody. */
  readonly users?: readonly string[] | undefined;
  readonly networks?: readonly string[] | undefined;
}

/** The scope, and what is wrong with how it is written. */
export function readScope(written: WrittenScope): { readonly scope: Scope; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const networks = written.networks?.flatMap((text, index): readonly Network[] => {
    const parsed = parseNetwork(text);
    if (parsed.ok && !parsed.value.hostBits) return [parsed.value.network];
    // Host bits may be a slip in the address or in the prefix length, and rules of the wider of the two would be deleted.
    const expected = parsed.ok
      ? `a network without host bits (${parsed.value.network.text}), or the address alone`
      : 'an IP address or a network in CIDR notation';
    const summary = `scope.networks.${index} must be ${expected}, not "${text}"`;
    problems.push({ code: 'bad-setting', severity: 'error', summary });
    return [];
  });
  const users = written.users?.map((user) => (user === 'global' ? null : user.toLowerCase()));
  const scope = {
    rules: written.rules ?? wholeScope.rules,
    configuration: written.configuration ?? wholeScope.configuration,
    ...(users === undefined ? {} : { users: new Set(users) }),
    ...(networks === undefined ? {} : { networks }),
  };
  return { scope, problems };
}
