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
    [
      '<tag>value</stag>',
      '{:fatal, {{:endtag_does_not_match, {:was, :stag, :should_have_been, :tag}}, {:file, :file_name_unknown}, {:line, 1}, {:col, 14}}}',
    ],
    ['<a:b></c>', '{:was, :c, :should_have_been, :"a:b"}'],
    ['<a>\n<b>', '{:fatal, {:unexpected_end, {:file, :file_name_unknown}, {:line, 2}, {:col, 4}}}'],
    ['text<a/>', '{:fatal, {:expected_element_start_tag, {:file, :file_name_unknown}, {:line, 1}, {:col, 2}}}'],
  ];
  for (const [text, reason] of broken) {
    test(`${JSON.stringify(text)} is not well-formed, in the server's words`, () => {
      expect(metadataProblem(text)).toContain(reason);
    });
  }

  test('what follows the root element is not looked at', () => {
    expect(metadataProblem(`<EntityDescriptor ${SAML} entityID="x"/> and <more`)).toBeUndefined();
  });

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
    ['1a:b', 'is invalid. Error at :'],
    ['/a[b]', 'is invalid. Error at ['],
    ['https://u:p@x/', undefined],
    ['/a#b#c', 'is invalid. Error at #'],
    ['x.example/a:b', 'does not contain a scheme or a host'],
    ['https://a:b/', 'is invalid. Error at :'],
  ];
  for (const [text, expected] of uris)
    test(`${text}: ${expected ?? 'fine'}`, () => expect(uriProblem(text)).toBe(expected));
});
