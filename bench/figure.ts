import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

/** What we took, and what any tool needs at least for the same. */
export interface Figure {
  readonly ours: number;
  readonly floor: number;
}

/** One line of `npm run bench`: a figure with its limit. */
export interface FigureBench {
  readonly name: string;
  readonly unit: 'ms' | 'MB' | 'calls';
  /** What the limit counts: ours alone, what is over the floor, or the ratio of the two. */
  readonly counts: 'ours' | 'over' | 'ratio';
  /** Null: shown, and never missed. */
  readonly limit: number | null;
  readonly measure: () => Figure | Promise<Figure>;
}

/** What some work took, in ms on the clock and of all processors. */
export interface Cost {
  readonly wall: number;
  readonly cpu: number;
}

export interface Costs {
  readonly ours: Cost;
  readonly floor: Cost;
}

/** A line for CPU and one for wall time of the same work. */
export function linesOf(
  { name, counts, limit }: Pick<FigureBench, 'name' | 'counts'> & { readonly limit: number | Cost | null },
  measure: () => Costs | Promise<Costs>,
): readonly FigureBench[] {
  const measured = once(measure);
  return (['cpu', 'wall'] as const).map((of) => ({
    name: `${name}: ${of === 'cpu' ? 'CPU' : 'wall time'}`,
    unit: 'ms',
    counts,
    limit: typeof limit === 'object' && limit !== null ? limit[of] : limit,
    measure: async () => {
      const { ours, floor } = await measured();
      return { ours: ours[of], floor: floor[of] };
    },
  }));
}

/** What the work costs in this process: the median of several runs. */
export function costOf(work: () => unknown, times = 1): Cost {
  return medianCost(
    Array.from({ length: times }, () => {
      const [start, spent] = [performance.now(), process.cpuUsage()];
      work();
      return { wall: performance.now() - start, cpu: cpuSince(spent) };
    }),
  );
}

/** The same for work that others do meanwhile: of the process `pid`, or of this one. */
export async function awaitedCost(work: () => Promise<unknown>, times = 1, pid = process.pid): Promise<Cost> {
  const costs: Cost[] = [];
  const before = cpuMs(pid);
  for (let time = 0; time < times; time++) {
    const start = performance.now();
    await work();
    costs.push({ wall: performance.now() - start, cpu: 0 });
  }
  return { ...medianCost(costs), cpu: (cpuMs(pid) - before) / times };
}

/** CPU of this process since then, in ms. */
export function cpuSince(spent: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(spent);
  return (user + system) / 1000;
}

/** User and system time of a process, ms; the kernel counts in ticks of 10 ms. */
export function cpuMs(pid: number | undefined): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** What a process holds now, in MB. */
export function residentMb(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** The memory of Node that does nothing, in MB: the floor of every figure of memory. */
export const bareMemory = once((): number => {
  const { stdout } = spawnSync(process.execPath, ['-p', 'process.resourceUsage().maxRSS'], { encoding: 'utf8' });
  return Number(stdout) / 1024;
});

const requesting = `
const { urls, token, methods, rounds } = JSON.parse(process.argv[1]);
const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' };
const walls = [];
let next = 0;
const spent = process.cpuUsage();
for (let round = 0; round < rounds; round++) {
  const start = performance.now();
  for (const url of urls)
    for (const method of methods) {
      const rule = { action: 'accept', destination: '172.31.' + (next >> 8) + '.' + (next++ & 255) };
      const body = method === 'POST' ? JSON.stringify({ rule }) : undefined;
      JSON.parse(await (await fetch(url + '/v0/rules', { method, headers, body })).text());
    }
  walls.push(performance.now() - start);
}
const { user, system } = process.cpuUsage(spent);
console.log(JSON.stringify({ wall: walls.sort((a, b) => a - b)[rounds >> 1], cpu: (user + system) / 1000 / rounds }));
`;

/** The floor of what asks servers: these requests for their rules in a process of their own, by nothing but `fetch` and `JSON.parse`. */
export async function costOfRequests(request: {
  readonly urls: readonly string[];
  readonly token: string;
  readonly methods: readonly ('GET' | 'POST')[];
  readonly rounds: number;
}): Promise<Cost> {
  const args = ['--input-type=module', '-e', requesting, JSON.stringify(request)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as Cost;
}

/** The median of each. */
export function medianCost(costs: readonly Cost[]): Cost {
  return { wall: medianOf(costs.map(({ wall }) => wall)), cpu: medianOf(costs.map(({ cpu }) => cpu)) };
}

/** Measures once for several figures. */
export function once<T>(measure: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: measure() };
    return made.value;
  };
}

/** The median of values; NaN of none. */
export function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
