import { posix } from 'node:path';
import type { FileManifests, Manifest, OverlayManifest } from '../manifest/manifest.ts';
import { createHints, didYouMean } from '../manifest/suggest.ts';
import { getOrMake, keepFirst } from '../model/group-by.ts';
import { makeError, type Problem, relateTo } from '../model/problem.ts';

/** The manifests that count, and what is wrong with how they are layered. */
export interface Layered {
  readonly manifests: readonly Manifest[];
  /** The files that these come from; what is wrong with the files of other environments does not matter here. */
  readonly files: readonly FileManifests[];
  readonly problems: readonly Problem[];
}

type Layer = ReadonlyMap<string, Manifest>;

/**
 * Chooses the manifests that count. Without an overlay every manifest does, and none may be named twice. With one, its
 * directory is laid over its bases (each of which may be an overlay itself), later bases over earlier ones: a manifest
 * replaces one of the same kind and name as a whole, except that `Configuration` and `Users` are merged field by field.
 */
export function applyLayers(files: readonly FileManifests[], chosen: string | null): Layered {
  // As paths of files are written: `production` for `./production/`, which shells complete to.
  const overlay = chosen === null ? null : posix.normalize(chosen).replace(/(.)\/$/, '$1');
  const overlays = files.flatMap((file) => file.manifests.filter((manifest) => manifest.kind === 'Overlay'));
  const problems: Problem[] = [];
  if (overlay === null) {
    const [first] = overlays;
    // Until then two of one name may be right, and values may be missing: only the overlays are looked at.
    if (first !== undefined) {
      const own = files.filter((file) => file.manifests.some((one) => one.kind === 'Overlay'));
      return { manifests: [], files: own, problems: [overlayNotChosen(first, overlays)] };
    }
    return { manifests: [...collect(files, problems).values()], files, problems };
  }
  const distinct = keepFirst(overlays, directoryOf, ({ place }, first) => {
    const summary = 'A directory has two Overlay manifests.';
    problems.push(relateTo(makeError('duplicate-name', summary, 'Keep one for each directory.', place), first.place));
  });
  const byDirectory = new Map(distinct.map((one) => [directoryOf(one), one]));
  if (byDirectory.get(overlay) === undefined) {
    problems.push(unknownOverlay(overlay, [...byDirectory.keys()]));
    return { manifests: [], files: [], problems };
  }
  const builder: Builder = { files, byDirectory, problems, open: [], used: new Set(), built: new Map() };
  const manifests = [...build(builder, overlay).values()];
  return { manifests, files: files.filter((file) => builder.used.has(file)), problems };
}

interface Builder {
  readonly files: readonly FileManifests[];
  readonly byDirectory: ReadonlyMap<string, OverlayManifest>;
  readonly problems: Problem[];
  readonly open: readonly string[];
  readonly used: Set<FileManifests>;
  /** Layers by directory: a base that several overlays share is built, and its problems are told, once. */
  readonly built: Map<string, Layer>;
}

function build(builder: Builder, directory: string): Layer {
  const { byDirectory, problems } = builder;
  const overlay = byDirectory.get(directory);
  const files = filesBelow(builder, directory);
  for (const file of files) builder.used.add(file);
  const own = collect(files, problems);
  if (overlay === undefined) return own;
  const merged = new Map<string, Manifest>();
  const open = [...builder.open, directory];
  for (const { value: base, place } of overlay.bases) {
    if (open.includes(base)) {
      const summary = `The overlay is its own base, by way of \`${base}\`.`;
      problems.push(makeError('overlay-cycle', summary, 'Remove it from the bases.', place));
      continue;
    }
    const layer = getOrMake(builder.built, base, () => build({ ...builder, open }, base));
    if (layer.size === 0) {
      const hint = 'Check the path: it is relative to this file.';
      problems.push(makeError('empty-base', `The base \`${base}\` has no manifests.`, hint, place));
    }
    for (const [key, manifest] of layer) merged.set(key, over(manifest, merged.get(key)));
  }
  const hintAt = createHints();
  for (const { value, place } of overlay.remove) {
    // The Configuration is a singleton: its name is part of what is removed only when it is the right one.
    const key = value === `Configuration/${merged.get('Configuration')?.name}` ? 'Configuration' : value;
    if (!merged.delete(key)) {
      const hint = hintAt(value, merged.keys(), 'Write `Kind/name`, as in `Rule/web`.');
      problems.push(makeError('nothing-to-remove', `No base has a manifest \`${value}\`.`, hint, place));
    }
  }
  for (const [key, manifest] of own) merged.set(key, over(manifest, merged.get(key)));
  return merged;
}

/** The files of a directory and below it, without those of overlays and bases of its own further down. */
function filesBelow({ files, byDirectory }: Builder, directory: string): readonly FileManifests[] {
  const prefix = directory === '.' ? '' : `${directory}/`;
  const bases = byDirectory.get(directory)?.bases.map(({ value }) => value) ?? [];
  const inner = [...byDirectory.keys(), ...bases].filter(
    (other) => other !== directory && `${other}/`.startsWith(prefix),
  );
  return files.filter(
    ({ path }) => path.startsWith(prefix) && !inner.some((other) => other !== '.' && path.startsWith(`${other}/`)),
  );
}

/** The manifests of files that stand side by side; the same kind and name twice is a problem. */
function collect(files: readonly FileManifests[], problems: Problem[]): Layer {
  const all = files.flatMap(({ manifests }) => manifests).filter(({ kind }) => kind !== 'Overlay');
  const distinct = keepFirst(all, keyOf, (one, first) => problems.push(duplicateManifest(one, first)));
  return new Map(distinct.map((manifest) => [keyOf(manifest), manifest]));
}

/** There is one Configuration, whatever its name. */
function keyOf({ kind, name }: Manifest): string {
  return kind === 'Configuration' ? kind : `${kind}/${name}`;
}

function over(upper: Manifest, lower: Manifest | undefined): Manifest {
  if (upper.kind === 'Configuration' && lower?.kind === 'Configuration')
    return { ...upper, fields: { ...lower.fields, ...upper.fields }, places: { ...lower.places, ...upper.places } };
  if (upper.kind !== 'Users' || lower?.kind !== 'Users') return upper;
  const names = new Set(upper.users.map((user) => user.name));
  return { ...upper, users: [...lower.users.filter((user) => !names.has(user.name)), ...upper.users] };
}

function directoryOf({ place }: OverlayManifest): string {
  return posix.dirname(place.file);
}

function duplicateManifest(manifest: Manifest, first: Manifest): Problem {
  const summary =
    manifest.kind === 'Configuration'
      ? 'There are two Configuration manifests; the server has one Configuration.'
      : `There are two manifests \`${manifest.kind}/${manifest.name}\`.`;
  const hint = manifest.kind === 'Configuration' ? 'Join the two.' : 'Rename one of the two, or remove it.';
  return relateTo(makeError('duplicate-name', summary, hint, manifest.place), first.place);
}

function overlayNotChosen(first: OverlayManifest, overlays: readonly OverlayManifest[]): Problem {
  const directories = overlays.map((overlay) => `\`--overlay ${directoryOf(overlay)}\``).sort();
  const summary = 'These manifests describe several environments, and none was chosen.';
  return makeError('overlay-not-chosen', summary, `Choose one: ${directories.join(', ')}.`, first.place);
}

function unknownOverlay(overlay: string, known: readonly string[]): Problem {
  const summary = `There is no overlay \`${overlay}\`: that directory has no \`kind: Overlay\`.`;
  const otherwise = known.length === 0 ? 'Add one, or leave the option out.' : `Known: ${known.join(', ')}.`;
  return makeError('unknown-overlay', summary, didYouMean(overlay, known, otherwise));
}
