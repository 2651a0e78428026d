// Writes the pictures in docs/images: plan.svg, the second plan of the demo as the program printed it, in a frame; and, where Chromium is
// there, the pages of a rich example (scripts/pages.mjs), with checksums of their HTML. A test makes plan.svg and the checksums in a
// folder of its own (`node scripts/picture.mjs FOLDER`) and fails when those in docs/images are others.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { makePages } from './pages.mjs';

const root = new URL('..', import.meta.url).pathname;
const target = process.argv[2] ?? `${root}docs/images`;
const demo = spawnSync(process.execPath, [`${root}scripts/demo.mjs`], {
  encoding: 'utf8',
  // As for a person: a job of CI keeps no record of what was applied, by which deleted rules have names.
  env: { ...process.env, CI: '', NO_COLOR: '1' },
});
if (demo.status !== 0) throw new Error(demo.stderr);
writeFileSync(`${target}/plan.svg`, pictureOf(planIn(demo.stdout)));
const pages = Object.entries(await makePages());
if (process.argv[2] === undefined) await takePictures();
const checksums = pages.map(([name, html]) => [`${name}-page.png`, createHash('sha256').update(html).digest('hex')]);
writeFileSync(`${target}/pages.json`, `${JSON.stringify(Object.fromEntries(checksums), null, 2)}\n`);

/** What a person sees who opens them; without scripts, since nobody is there to answer them. */
async function takePictures() {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  for (const [name, html] of pages) {
    const viewport = { width: 860, height: 1000 };
    const page = await browser.newPage({ viewport, javaScriptEnabled: false, colorScheme: 'light' });
    await page.setContent(html);
    await page.screenshot({ path: `${target}/${name}-page.png` });
  }
  await browser.close();
}

/** The plan of the edited policy, with the server, the revision and the ids of a day like any other. */
function planIn(output) {
  const [, plan] = /^\$ reconcile [^\n]*--detailed-exitcode[^\n]*\n([\s\S]*?)\nexit code 2$/m.exec(output) ?? [];
  if (plan === undefined) throw new Error('the demo shows no plan of the edited policy');
  return plan
    .replace(/http:\/\/127\.0\.0\.1:\d+/, 'https://vpn.example.com')
    .replace(/policy at sha256:[0-9a-f]+/, 'policy at 4df71eb (main)')
    .replace(/\b[0-9a-f]{8}$/gm, '8c1f02ab')
    .replace(/ Digest [0-9a-f]+\./, '');
}

function pictureOf(text) {
  const lines = text.trimEnd().split('\n');
  const width = Math.max(...lines.map((line) => line.length)) * 7.8 + 40;
  const height = lines.length * 19 + 40;
  const rows = lines.map((line, index) => {
    const kind = /^ {2}(?:opens|open) /.test(line)
      ? 'risk'
      : /^(?:Plan for|Traffic|On the way|\d)/.test(line)
        ? 'strong'
        : '';
    return `<text class="${kind}" x="20" y="${index * 19 + 34}" xml:space="preserve">${escapeText(line)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${Math.ceil(width)} ${height}" role="img" aria-label="A plan in a terminal">
<style>
rect { fill: #fbfbfa; stroke: #c9c9c4; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; white-space: pre; }
.strong { font-weight: 600; }
.risk { font-weight: 600; fill: #b42318; }
@media (prefers-color-scheme: dark) {
rect { fill: #16181c; stroke: #3a3f47; }
text { fill: #d7dce2; }
.risk { fill: #ff8a80; }
}
</style>
<rect x="0.5" y="0.5" width="${Math.ceil(width) - 1}" height="${height - 1}" rx="8"/>
${rows.join('\n')}
</svg>
`;
}

function escapeText(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
