import type { SourceReading } from '../ports.ts';
import type { Verdict } from './failure.ts';
import { joinTexts } from './failure.ts';

const terminalSources: ReadonlySet<string> = new Set([
  'git-auth',
  'git-host-key',
  'git-redirect',
  'git-ref-missing',
  'git-ref-ambiguous',
  'git-repository-missing',
  'git-path-missing',
  'git-lfs',
  'git-signature',
  'git-signature-keys',
  'not-a-regular-file',
  'unsafe-file-name',
  'no-manifests',
  'source-too-large',
]);

/** How a source that gave no content is judged: terminal where only a person or a push can help. */
export function judgeSource(reading: SourceReading): Verdict {
  const problem = reading.problems[0];
  const message = problem === undefined ? 'the source gave nothing' : joinTexts(problem);
  const kind = terminalSources.has(problem?.code ?? '') ? 'terminal' : 'transient';
  return { kind, reason: problem?.code.startsWith('git-signature') ? 'SignatureRefused' : 'SourceFailed', message };
}

/** A source that threw: stopped, or a mistake whose text is not shown. */
export function explainSourceError(error: unknown, stop: AbortSignal): SourceReading {
  const name = error instanceof Error ? error.name : typeof error;
  const code = stop.aborted ? 'stopped' : 'source-error';
  return { content: null, problems: [{ code, severity: 'error', summary: `the source could not be read (${name})` }] };
}
