import type { Limits } from '../../desired/context.ts';
import type { Problem } from '../../model/problem.ts';

/** A source beyond one of its limits, a directory and a Git tree alike. `setting`: the one that raises it; without, none does. */
export function refuseTooLarge(summary: string, setting?: string): Problem {
  const raise = setting === undefined ? '' : `, or raise ${setting} in the settings file`;
  const hint = `point PATH (or --git-path) at the manifests only${raise}`;
  return { code: 'source-too-large', severity: 'error', summary, hint };
}

export function findTooMany(limits: Limits): Problem {
  return refuseTooLarge(`there are more than ${limits.files} manifests`, 'limits.files');
}

export function findTooMuch(limits: Limits): Problem {
  return refuseTooLarge(`the manifests are larger than ${limits.totalBytes} bytes in all`, 'limits.totalBytes');
}

export function findTooDeep(path: string, limits: Limits): Problem {
  return refuseTooLarge(`${path} lies more than ${limits.depth} directories deep`, 'limits.depth');
}

export function findTooLong(path: string, limits: Limits): Problem {
  return refuseTooLarge(`${path} is larger than ${limits.fileBytes} bytes`, 'limits.fileBytes');
}
