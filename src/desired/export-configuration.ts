import { Flow, writeManifest, type Yaml } from '../manifest/write.ts';
import {
  type ConfigurationField,
  type ConfigurationFields,
  configurationFields,
  type OidcProvider,
  type SamlProvider,
} from '../model/configuration.ts';
import { makeWarning, type Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { ok } from '../model/result.ts';
import { reveal, type Secret } from '../model/secret.ts';
import { defaultLimits } from './context.ts';
import { assemble } from './desired.ts';
import { type ExportedFile, makeUnique, slugify } from './export.ts';
import { parseFiles } from './parse-files.ts';

/** The Configuration as files, and the fields that cannot be written as they are. */
export interface ExportedConfiguration {
  readonly files: readonly ExportedFile[];
  readonly problems: readonly Problem[];
  /** Fields whose live value no manifest may have, and why. */
  readonly unfit: readonly Unfit[];
  /** Environment variables that the manifest refers to; their values are not exported. */
  readonly secrets: readonly string[];
}

/** A field whose live value no manifest may have; the reason is a sentence. */
export interface Unfit {
  readonly field: ConfigurationField;
  readonly reason: string;
}

interface Naming {
  readonly variables: Set<string>;
  readonly paths: Set<string>;
  readonly secretByName: Map<string, Secret>;
}

/** Writes the Configuration with secrets as references; fields no manifest may have are named. */
export function exportConfiguration(fields: ConfigurationFields, profile: Profile): ExportedConfiguration {
  const naming: Naming = { variables: new Set(), paths: new Set(), secretByName: new Map() };
  const spec: Record<string, Yaml> = {};
  const unfit: Unfit[] = [];
  for (const field of configurationFields) {
    // A manifest that says nothing of a logo leaves it alone.
    if (field === 'logo' && fields.logo === null) continue;
    const value = fieldOf(field, fields, naming);
    const reason = reasonAgainst(field, value, { profile, naming });
    if (reason === null) spec[field] = value;
    else unfit.push({ field, reason });
  }
  const text = writeManifest('Configuration', { name: 'main' }, spec);
  const metadata = [...naming.paths].flatMap((path): readonly ExportedFile[] => {
    const secret = naming.secretByName.get(path);
    const content = secret === undefined ? undefined : reveal(secret);
    return content === undefined || spec['saml_identity_providers'] === undefined ? [] : [{ path, text: content }];
  });
  const secrets = spec['openid_connect_providers'] === undefined ? [] : [...naming.variables];
  return {
    files: [{ path: 'configuration.yaml', text }, ...metadata],
    problems: unfit.map(notExported),
    unfit,
    secrets,
  };
}

function fieldOf(field: ConfigurationField, fields: ConfigurationFields, naming: Naming): Yaml {
  switch (field) {
    case 'openid_connect_providers':
      return fields.openid_connect_providers.map((provider) => oidc(provider, naming));
    case 'saml_identity_providers':
      return fields.saml_identity_providers.map((provider) => saml(provider, naming));
    case 'logo': {
      const { url = null, data = null, type = null } = fields.logo ?? {};
      const members = Object.entries({ url, data, type }).filter(([, member]) => member !== null);
      return Object.fromEntries(members);
    }
    default:
      return fields[field];
  }
}

/** The variable that a manifest takes a provider's secret from; then it is taken. */
export function nameSecret({ id }: Pick<OidcProvider, 'id'>, taken: Set<string>): string {
  return makeUnique(`RECONCILE_SECRET_OIDC_${id.toUpperCase()}`.replace(/[^A-Z0-9]+/g, '_'), taken, '', '_');
}

function oidc(provider: OidcProvider, naming: Naming): Yaml {
  const variable = nameSecret(provider, naming.variables);
  naming.secretByName.set(variable, provider.client_secret);
  return { ...provider, client_secret: new Flow({ env: variable }) };
}

function saml(provider: SamlProvider, naming: Naming): Yaml {
  const path = makeUnique(`saml/${slugify(provider.id)}`, naming.paths, '.xml');
  naming.secretByName.set(path, provider.metadata);
  return { ...provider, metadata: new Flow({ file: path }) };
}

/** Why a manifest with this field alone would be refused; null when it would not. */
function reasonAgainst(
  field: ConfigurationField,
  value: Yaml,
  { profile, naming }: { readonly profile: Profile; readonly naming: Naming },
): string | null {
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
  return problems.find((problem) => problem.severity === 'error')?.summary ?? null;
}

function notExported({ field, reason }: Unfit): Problem {
  const summary = `The live value of \`${field}\` was left out: a manifest may not have it. ${reason}`;
  return makeWarning('not-exported', summary, 'Write the field by hand with the value that you want.');
}
