import { Flow, writeManifest, type Yaml } from '../manifest/write.ts';
import {
  type ConfigurationField,
  type ConfigurationFields,
  configurationFields,
  mapSecrets,
  type OidcProvider,
  type SamlProvider,
} from '../model/configuration.ts';
import { makeWarning } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { ok } from '../model/result.ts';
import { reveal, type Secret } from '../model/secret.ts';
import { defaultLimits } from './context.ts';
import { assemble } from './desired.ts';
import { type ExportedFile, makeUnique, slugify } from './export.ts';
import { parseFiles } from './parse-files.ts';

/** The Configuration as files, and the fields that cannot be written as they are. */
export type ExportedConfiguration = ReturnType<typeof exportConfiguration>;

interface Naming {
  readonly variables: Set<string>;
  readonly paths: Set<string>;
  readonly secretByName: Map<string, Secret>;
}

/** Writes the Configuration with secrets as references; fields no manifest may have are named. */
export function exportConfiguration(fields: ConfigurationFields, profile: Profile) {
  const naming: Naming = { variables: new Set(), paths: new Set(), secretByName: new Map() };
  const spec: Record<string, Yaml> = {};
  /** Fields whose live value no manifest may have; the reason says what to write. */
  const unfit: { readonly field: ConfigurationField; readonly reason: string }[] = [];
  const yaml = writeFields(mapSecrets(fields, (secret, provider) => nameReference(secret, provider, naming)));
  for (const field of configurationFields) {
    // A manifest that says nothing of a logo leaves it alone.
    if (field === 'logo' && fields.logo === null) continue;
    const value = yaml[field] ?? null;
    const reason = reasonAgainst(field, value, naming, profile);
    if (reason === null) spec[field] = value;
    else unfit.push({ field, reason });
  }
  const text = writeManifest('Configuration', { name: 'main' }, spec);
  const metadata = [...naming.paths].flatMap((path): readonly ExportedFile[] => {
    const secret = naming.secretByName.get(path);
    const content = secret === undefined ? undefined : reveal(secret);
    return content === undefined || spec['saml_identity_providers'] === undefined ? [] : [{ path, text: content }];
  });
  /** Environment variables that the manifest refers to; their values are not exported. */
  const secrets = spec['openid_connect_providers'] === undefined ? [] : [...naming.variables];
  return {
    files: [{ path: 'configuration.yaml', text }, ...metadata],
    problems: unfit.map(({ field, reason }) => {
      const summary = `The live value of \`${field}\` was left out: a manifest may not have it. ${reason}`;
      return makeWarning('not-exported', summary, 'Write the field by hand with the value that you want.');
    }),
    unfit,
    secrets,
  };
}

/** The fields as a manifest has them, in the order of every output. */
export function writeFields(fields: Partial<ConfigurationFields<Flow>>): Readonly<Record<string, Yaml>> {
  const written = configurationFields.flatMap((field) => {
    const value = fields[field];
    return value === undefined ? [] : [[field, writeField(value)] as const];
  });
  return Object.fromEntries(written);
}

function writeField(value: ConfigurationFields<Flow>[ConfigurationField]): Yaml {
  if (value === null || typeof value !== 'object') return value;
  if (!Array.isArray(value)) return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
  return value.map((item: string | OidcProvider<Flow> | SamlProvider<Flow>) =>
    typeof item === 'string' ? item : { ...item },
  );
}

/** The variable that a manifest takes a provider's secret from; then it is taken. */
export function nameSecret({ id }: Pick<OidcProvider, 'id'>, taken: Set<string>): string {
  return makeUnique(`RECONCILE_SECRET_OIDC_${id.toUpperCase()}`.replace(/[^A-Z0-9]+/g, '_'), taken, '', '_');
}

function nameReference(secret: Secret, provider: OidcProvider | SamlProvider, naming: Naming): Flow {
  const isFile = 'metadata' in provider;
  const name = isFile
    ? makeUnique(`saml/${slugify(provider.id)}`, naming.paths, '.xml')
    : nameSecret(provider, naming.variables);
  naming.secretByName.set(name, secret);
  return new Flow(isFile ? { file: name } : { env: name });
}

/** Why a manifest with this field alone would be refused; null when it would not. */
function reasonAgainst(field: ConfigurationField, value: Yaml, naming: Naming, profile: Profile): string | null {
  const text = writeManifest('Configuration', { name: 'main' }, { [field]: value });
  const file = { path: 'configuration.yaml', bytes: new TextEncoder().encode(text), hash: '' };
  const parsed = parseFiles([file], { profile, values: null, limits: defaultLimits });
  const { problems } = assemble(parsed, null, {
    profile,
    scope: { rules: false, configuration: true },
    now: 0,
    resolveSecret: (reference) => {
      const secret = naming.secretByName.get('env' in reference ? reference.env : reference.file);
      return secret === undefined ? { ok: false, error: 'not exported' } : ok(secret);
    },
  });
  const error = problems.find((problem) => problem.severity === 'error');
  return error === undefined ? null : `${error.summary} ${error.hint ?? ''}`.trimEnd();
}
