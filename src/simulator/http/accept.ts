/** Types ending in `+json` that have a format of their own in the server's table, so that they do not admit json. */
const otherJson = new Set(['application/vnd.api+json', 'application/ld+json', 'application/manifest+json']);

/** The formats that the two callers offer: the API json only, the error pages html before json. */
export type AcceptedFormat = 'json' | 'html';

/** Picks the answer's format from the Accept header; undefined: none is acceptable (observed: recordings/errors_by_accept). */
export function negotiate(accept: string | undefined, offers: readonly AcceptedFormat[]): AcceptedFormat | undefined {
  if (accept === undefined || accept.includes('*/*')) return offers[0];
  const ranges = accept.split(',').flatMap((text) => parseRange(text) ?? []);
  const sure = ranges.filter((range) => range.quality === 1);
  const rest = ranges.filter((range) => range.quality !== 1).sort((a, b) => b.quality - a.quality);
  for (const range of [...sure, ...rest]) {
    const format = offers.find((offer) => admits(range.full, offer));
    if (format !== undefined) return format;
  }
  return undefined;
}

function parseRange(text: string) {
  const [, full, parameters = ''] = /^\s*([\w!#$&^.+*-]+\/[\w!#$&^.+*-]+)\s*(;.*)?$/.exec(text) ?? [];
  // Any type at all is meant by `*/*` alone, which was looked for before.
  if (full === undefined || full.startsWith('*/')) return undefined;
  const quality = Number.parseFloat(/;\s*q=([0-9.]+)/i.exec(parameters)?.[1] ?? '1');
  return { full: full.toLowerCase(), quality: Number.isNaN(quality) ? 1 : quality };
}

function admits(full: string, offer: AcceptedFormat): boolean {
  if (full.endsWith('/*')) return full === (offer === 'json' ? 'application/*' : 'text/*');
  if (offer === 'html') return full === 'text/html';
  return full === 'application/json' || (full.endsWith('+json') && !otherJson.has(full));
}
