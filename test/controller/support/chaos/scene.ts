import { spawnSync } from 'node:child_process';
import type { Chaos } from './deeds.ts';
import { canary } from './deeds.ts';

/** What can be seen from outside of a run that failed or did not end. */
export async function describeScene({ doing, sidecar, host, world, upstream }: Chaos): Promise<string> {
  const state = await sidecar.status().catch((error: unknown) => `no answer (${String(error)})`);
  const pid = sidecar.child.pid ?? 0;
  const processes = spawnSync('ps', ['-eo', 'pid,ppid,stat,wchan:20,etime,args'], { encoding: 'utf8' }).stdout;
  const related = processes.split('\n').filter((line) => line.includes(String(pid)) || line.includes(world.folder));
  return [
    `while ${doing}`,
    `sidecar ${pid}: exit ${sidecar.child.exitCode}, signal ${sidecar.child.signalCode}`,
    `git host: ${host.mode}, password ${host.password === canary ? 'right' : 'wrong'}, newest ${upstream.git('rev-parse', 'HEAD')}`,
    `status: ${JSON.stringify(state, null, 1)}`,
    `processes:\n${related.join('\n')}`,
    `log:\n${sidecar.output().slice(-6000)}`,
  ].join('\n');
}
