import { createHash } from 'node:crypto';
import { createApiClient } from '../../../src/adapters/api/client.ts';
import { systemClock } from '../../../src/adapters/clock.ts';
import { createNftEnforcement } from '../../../src/adapters/enforcement/nft.ts';
import { defaultApplyLimits } from '../../../src/apply/context.ts';
import { defaultLimits } from '../../../src/desired/context.ts';
import { parseFiles } from '../../../src/desired/parse-files.ts';
import { findProfile } from '../../../src/model/profile.ts';
import { fail } from '../../../src/model/result.ts';
import { wholeScope } from '../../../src/model/state.ts';
import { emptyMemory, type PassDependencies } from '../../../src/pass/pass.ts';
import { defaultPlanOptions } from '../../../src/plan/input.ts';
import type { SourceContent } from '../../../src/ports.ts';
import { pathOf } from './namespace.ts';
import { type KernelServer, token } from './server.ts';

const profile = findProfile('firezone-0.7');
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Manifests that drop these for everyone: `10.0.0.0/8`, or `10.0.0.0/8 udp 53`. */
export function dropsOf(lines: readonly string[]): SourceContent {
  const text = lines
    .map((line) => line.split(' '))
    .map(([destination, type, range], index) =>
      JSON.stringify({
        apiVersion: 'firezone/v0',
        kind: 'Rule',
        metadata: { name: `drop-${index}` },
        spec: { action: 'drop', destination, ...(type === undefined ? {} : { port_type: type, port_range: range }) },
      }),
    )
    .join('\n---\n');
  const bytes = Buffer.from(`${text}\n`);
  const hash = createHash('sha256').update(bytes).digest('hex');
  return { revision: hash, files: [{ path: 'rules.yaml', bytes, hash }] };
}

/** What one pass needs, with a look at the namespace's kernel. */
export function passOver(
  server: Pick<KernelServer, 'simulator'>,
  netns: string,
  { repair, waitMs }: { readonly repair: boolean; readonly waitMs: number | null },
): { readonly pass: PassDependencies; readonly close: () => Promise<void> } {
  const api = createApiClient({ baseUrl: server.simulator.url, token: () => token, allowHttp: false });
  if (!api.ok) throw new Error(api.error);
  const pass: PassDependencies = {
    api: api.value,
    clock: systemClock,
    logger: silent,
    journal: null,
    parse: async (files) => parseFiles(files, { profile, values: null, limits: defaultLimits }),
    desired: { profile, scope: wholeScope, now: 0, resolveSecret: () => fail('no secrets here') },
    base: null,
    options: { ...defaultPlanOptions, allowEmpty: true },
    limits: defaultApplyLimits,
    memory: emptyMemory,
    stop: new AbortController().signal,
    enforcement: { kernel: createNftEnforcement({ netns: pathOf(netns), timeoutMs: 10_000 }), repair, waitMs },
  };
  return { pass, close: () => api.value.close() };
}
