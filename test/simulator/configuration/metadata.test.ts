import { describe, expect, test } from 'vitest';
import { metadataProblem } from '../../../src/simulator/configuration/metadata.ts';
import { uriProblem } from '../../../src/simulator/configuration/uri.ts';
import { ServerCrash } from '../../../src/simulator/crash.ts';

const SAML = 'xmlns="urn:oasis:names:tc:SAML:2.0:metadata"';

describe('metadataProblem', () => {
  test('takes an entity in the default namespace, with comments, CDATA and entities around', () => {
    expect(
      metadataProblem(
        `<?xml version="1.0"?><!-- <x> --><EntityDescriptor ${SAML} entityID="a&amp;b"><a><![CDATA[</b>]]></a></EntityDescriptor>`,
      ),
    ).toBeUndefined();
  });

  const broken: readonly (readonly [string, string])[] = [
    ['<a><b></a>', ':endtag_does_not_match'],
    ['<a>', ':unexpected_end'],
    ['<a/>text', ':expected_element_start_tag'],
    ['<a/><b/>', ':expected_one_root_element'],
    ['   ', ':unexpected_end'],
  ];
  for (const [text, reason] of broken) {
    test(`${text} is not well-formed: ${reason}`, () => {
      expect(metadataProblem(text)).toContain(reason);
    });
  }

  test('an entity of another namespace makes the server fail', () => {
    expect(() => metadataProblem('<EntityDescriptor xmlns="urn:other" entityID="x"/>')).toThrow(ServerCrash);
  });
});

describe('uriProblem', () => {
  const uris: readonly (readonly [string, string | undefined])[] = [
    ['https://x.example:8443/cb?a=1#f', undefined],
    ['http://[::1]:80/x', undefined],
    ['//x/cb', 'does not contain a scheme'],
    ['https://', 'does not contain a scheme or a host'],
    ['mailto:a@b', 'does not contain a scheme or a host'],
    ['HTTPS://x', 'only http, https schemes are supported'],
    ['https://a b', 'is invalid. Error at :'],
    ['/a>b', 'is invalid. Error at >'],
    ['https://a:b/', 'is invalid. Error at :'],
  ];
  for (const [text, expected] of uris)
    test(`${text}: ${expected ?? 'fine'}`, () => expect(uriProblem(text)).toBe(expected));
});
