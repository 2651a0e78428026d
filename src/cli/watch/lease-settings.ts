import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import type { LockFileSettings } from '../../adapters/lease/lock-file.ts';
import { createSoleWriter, type Lease } from '../../controller/lease.ts';
import { attempt } from '../../model/result.ts';
import { type Failure, type Invocation, makeFailure, type Settings, type Terminal } from '../command.ts';
import { createLogger } from '../logger.ts';
import { serviceAccount } from '../manifests.ts';
import { isSafeAddress } from './notify-settings.ts';

/** Whose lease it is, and what is told of it. */
type LeaseHolder = { readonly settings: Settings; readonly terminal: Pick<Terminal, 'env' | 'cwd'> };
type LeaseEvents = Pick<LockFileSettings, 'logger' | 'onChange' | 'onOverlap'>;

const lockFile = () => import('../../adapters/lease/lock-file.ts');
const kubernetes = () => import('../../adapters/lease/kubernetes.ts');

/** Shorter than this a slow disk or API server looks like a dead replica. */
const shortestMs = 4000;

/** The lease that `--lease` names; throws a `Failure` when it cannot work. */
export async function createLease(holder: LeaseHolder, events: LeaseEvents): Promise<Lease> {
  const place = locateLease(holder, events);
  if (place === null) return createSoleWriter();
  return 'path' in place ? (await lockFile()).holdLockFile(place) : (await kubernetes()).holdKubernetesLease(place);
}

/** Who holds the lease that these settings name; null: nobody, or they name none. Rejects where that cannot be read. */
export async function lookAtLease(invocation: Invocation) {
  const ignore = (): void => undefined;
  const logger = await createLogger(invocation);
  const place = locateLease(invocation, { logger, onChange: ignore, onOverlap: ignore });
  if (place === null) return null;
  return 'path' in place ? (await lockFile()).lookAtLockFile(place) : (await kubernetes()).lookAtKubernetesLease(place);
}

function locateLease({ settings, terminal }: LeaseHolder, events: LeaseEvents) {
  const text = settings.lease;
  if (text === 'none') return null;
  const durationMs = settings.leaseDuration;
  const common = { identity: `${hostname()}_${randomUUID()}`, durationMs, clock: systemClock, ...events };
  if (durationMs < shortestMs)
    throw makeFailure('bad-setting', `--lease-duration must be at least ${shortestMs / 1000} s`);
  const atLeastMs = 4 * settings.timeout;
  const short = 'The lease is short: a request may still be under way when another replica takes it';
  if (durationMs < atLeastMs) events.logger.warn(short, { leaseDurationMs: durationMs, atLeastMs });
  const [, file] = /^file:(.+)$/s.exec(text) ?? [];
  if (file !== undefined) return { ...common, path: path.resolve(terminal.cwd, file) };
  const found = /^kubernetes:(?:([a-z0-9-]+)\/)?([a-z0-9.-]+)$/.exec(text);
  if (found === null)
    throw makeFailure('bad-setting', `--lease must be none, file:PATH or kubernetes:[NAMESPACE/]NAME, not "${text}"`);
  const cluster = clusterOf(settings, terminal.env);
  return { ...common, ...cluster, namespace: found[1] ?? ownNamespace(cluster.tokenFile), name: found[2] ?? '' };
}

function clusterOf(settings: Settings, env: Terminal['env']) {
  const given = settings.file?.nested.kubernetes;
  if (given !== undefined) {
    const wanted = 'must be https (http only to this machine): a token is sent there';
    if (!isSafeAddress(given.server)) throw makeFailure('bad-setting', `kubernetes.server ${wanted}`);
    const below = (file: string): string => path.resolve(settings.file?.folder ?? '', file);
    return {
      server: given.server.replace(/\/+$/, ''),
      tokenFile: below(given.tokenFile),
      caFile: given.caFile === undefined ? null : below(given.caFile),
    };
  }
  const host = env['KUBERNETES_SERVICE_HOST'];
  if (host === undefined) throw outside('there is no KUBERNETES_SERVICE_HOST');
  const [tokenFile, caFile] = [`${serviceAccount}/token`, `${serviceAccount}/ca.crt`];
  for (const file of [tokenFile, caFile]) if (!existsSync(file)) throw outside(`${file} is not there`);
  const name = host.includes(':') ? `[${host}]` : host;
  return { server: `https://${name}:${env['KUBERNETES_SERVICE_PORT'] ?? '443'}`, tokenFile, caFile };
}

function outside(because: string): Failure {
  const summary = `--lease kubernetes works inside a cluster, with the token of a service account: ${because}`;
  const hint = 'mount the token, write --lease file:PATH, or in the settings kubernetes: {server, tokenFile, caFile}';
  return makeFailure('bad-setting', summary, hint);
}

function ownNamespace(tokenFile: string): string {
  const name = attempt(() => readFileSync(path.join(path.dirname(tokenFile), 'namespace'), 'utf8').trim(), null);
  if (name !== null) return name;
  const hint = 'write --lease kubernetes:NAMESPACE/NAME';
  throw makeFailure('bad-setting', 'the namespace of the lease is not known', hint);
}
