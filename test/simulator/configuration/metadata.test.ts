import { describe, expect, test } from 'vitest';
import { checkMetadata, checkUri } from '../../../src/simulator/configuration/provider.ts';
import { parseXml } from '../../../src/simulator/configuration/xml.ts';
import { ServerCrash } from '../../../src/simulator/http/json.ts';

const SAML = 'xmlns="urn:oasis:names:tc:SAML:2.0:metadata"';

describe('checkMetadata', () => {
  test('takes an entity in the default namespace, with comments, CDATA and entities around', () => {
    expect(
      checkMetadata(
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
      expect(checkMetadata(text)).toContain(reason);
    });
  }

  test.each(['<a>&#x110000;</a>', '<a>x &#1114112; y</a>', "<a b='&#xD800;'/>", '<a>&#0;</a>'])(
    'a character that there is not makes %s invalid, not the simulator fail',
    (text) => {
      expect(checkMetadata(text)).toContain('{:error, {:wfc_Legal_Character, {:bad_character, ');
    },
  );

  test('what follows the root element is not looked at', () => {
    expect(checkMetadata(`<EntityDescriptor ${SAML} entityID="x"/> and <more`)).toBeUndefined();
  });

  test('an entity of another namespace makes the server fail', () => {
    expect(() => checkMetadata('<EntityDescriptor xmlns="urn:other" entityID="x"/>')).toThrow(ServerCrash);
  });
});

describe('checkUri', () => {
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
    test(`${text}: ${expected ?? 'fine'}`, () => expect(checkUri(text)).toBe(expected));
});

describe('where XML is broken', () => {
  // What xmerl of Erlang/OTP 25, the parser of the server, says of each text: line and column.
  test.each<[string, number, number]>([
    ['  garbage', 1, 4],
    [' <a></b>', 1, 8],
    ['<!-- c -->garbage', 1, 12],
    ['<?xml version="1.0"?><a></b>', 1, 28],
    ['<?xml version="1.0"?>\n<a></b>', 2, 7],
    ['<?xml version="1.0"?>\ngarbage', 2, 2],
    ["<a b='1' c='2'></b>", 1, 20],
    ["<a b='1'><b></c>", 1, 17],
    ["<a t='1", 1, 9],
    ["<a t='1'>", 1, 10],
    ['<a> </b>', 1, 8],
    ['<a>&lt;</b>', 1, 11],
    ['<a><![CDATA[x', 1, 15],
    ['<a></b>', 1, 7],
    ['<a><b></a>', 1, 11],
    ['<a><b></b><c></d>', 1, 19],
    ['<a>\n <b></c>', 2, 7],
    ['<a>\n</b>', 2, 3],
    ["<a>\n<b x='1' y='2' z='3'></c>", 2, 27],
    ["<a>\n<b x='1'/></c>", 2, 12],
    ['<a>\n<b', 2, 3],
    ['<a>\n<b/><b/></c>', 2, 9],
    ['<a>\n<b></b></c>', 2, 11],
    ['<a>\n<b><d></c>', 2, 11],
    ['<a>\n<b>t</b>t</c>', 2, 13],
    ['<a>text', 1, 9],
    ["<ab c='d'></b>", 1, 14],
    ['\n<?xml version="1.0"?><a/>', 2, 6],
    ['x<a/>', 1, 2],
  ])('%j: line %i, column %i', (text, line, column) => {
    expect(() => parseXml(text)).toThrow(`{:line, ${line}}, {:col, ${column}}`);
  });
});
