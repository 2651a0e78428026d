import type { ConfigurationManifest, FileManifests, Manifest, SecretSource } from '../manifest/manifest.ts';
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
  const manifests = mapSecrets(file.manifests, (source) => {
    if (source.from !== 'literal') return source;
    secrets.push(reveal(source.secret) ?? '');
    return { ...source, secret: Secret.unknown() };
  });
  return { file: { ...file, manifests }, secrets };
}

/** Puts them back. */
export function unseal({ file, secrets }: SealedManifests): FileManifests {
  let next = 0;
  const manifests = mapSecrets(file.manifests, (source) =>
    source.from === 'literal' ? { ...source, secret: Secret.of(secrets[next++] ?? '') } : source,
  );
  return { ...file, manifests };
}

type MapSecret = (source: SecretSource) => SecretSource;

function mapSecrets(manifests: readonly Manifest[], map: MapSecret): readonly Manifest[] {
  return manifests.map((manifest) => (manifest.kind === 'Configuration' ? mapConfiguration(manifest, map) : manifest));
}

function mapConfiguration(manifest: ConfigurationManifest, map: MapSecret): ConfigurationManifest {
  const { openid_connect_providers: oidc, saml_identity_providers: saml } = manifest.fields;
  return {
    ...manifest,
    fields: {
      ...manifest.fields,
      ...(oidc && { openid_connect_providers: oidc.map((one) => ({ ...one, client_secret: map(one.client_secret) })) }),
      ...(saml && { saml_identity_providers: saml.map((one) => ({ ...one, metadata: map(one.metadata) })) }),
    },
  };
}
