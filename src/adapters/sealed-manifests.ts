import type { FileManifests, Manifest, SecretSource } from '../manifest/manifest.ts';
import { mapSecrets } from '../model/configuration.ts';
import { reveal, Secret } from '../model/secret.ts';

/** A file's manifests on their way between two threads of this process: literal secrets lie beside them as text. */
export interface SealedManifests {
  readonly file: FileManifests;
  /** Of each Configuration in order, of each provider that has a literal secret. */
  readonly secrets: readonly string[];
}

/** Takes literal secrets out: a `Secret` does not survive the copy between threads. */
export function seal(file: FileManifests): SealedManifests {
  const secrets: string[] = [];
  const manifests = replaceSecrets(file.manifests, (source) => {
    if (source.from !== 'literal') return source;
    secrets.push(reveal(source.secret) ?? '');
    return { ...source, secret: Secret.unknown() };
  });
  return { file: { ...file, manifests }, secrets };
}

/** Puts them back. */
export function unseal({ file, secrets }: SealedManifests): FileManifests {
  let next = 0;
  const manifests = replaceSecrets(file.manifests, (source) =>
    source.from === 'literal' ? { ...source, secret: Secret.of(secrets[next++] ?? '') } : source,
  );
  return { ...file, manifests };
}

function replaceSecrets(
  manifests: readonly Manifest[],
  replace: (source: SecretSource) => SecretSource,
): readonly Manifest[] {
  return manifests.map((manifest) =>
    manifest.kind === 'Configuration' ? { ...manifest, fields: mapSecrets(manifest.fields, replace) } : manifest,
  );
}
