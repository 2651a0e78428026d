import { expect, it } from 'vitest';
import { defaultLimits } from '../../src/desired/context.ts';
import { readManifests } from '../../src/manifest/read-manifests.ts';
import { findProfile } from '../../src/model/profile.ts';

it.each(['constructor', '__proto__'])(
  'a value that every object of JavaScript has gets a hint of text: %s',
  (written) => {
    const text = `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a, labels: {${written}: [1]}}\nspec: {action: ${written}, destination: 10.0.0.1}\n`;
    const bytes = new TextEncoder().encode(text);
    const options = { profile: findProfile('firezone-0.7'), values: null, limits: defaultLimits };
    const { problems } = readManifests({ path: 'a.yaml', bytes }, options);
    expect(new Set(problems.map(({ hint }) => typeof hint))).toEqual(new Set(['string']));
  },
);
