import { spawnSync } from 'node:child_process';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';

const executablePath = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
export const hasBrowser = spawnSync(executablePath, ['--version']).status === 0;
export const why = hasBrowser ? '' : ' (skipped: no Chromium; Debian has it in the package chromium)';

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

/** A page that remembers what should not happen: errors, refusals of its policy, requests to elsewhere. */
export interface WatchedPage {
  readonly page: Page;
  /** Fails if something happened; `gone`: the server was away, so that requests may have failed. */
  expectQuiet(gone?: boolean): void;
}

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  // A slow machine is no failure.
  context.setDefaultTimeout(Number(process.env['BROWSER_PATIENCE_MS'] ?? 60_000));
  const page = await context.newPage();
  const [said, asked]: [string[], string[]] = [[], []];
  page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (one) => asked.push(one.url()));
  await page.goto(url);
  return {
    page,
    expectQuiet(gone = false) {
      expect(asked.filter((one) => !one.startsWith('data:') && new URL(one).origin !== new URL(url).origin)).toEqual(
        [],
      );
      const harmless = gone ? /^Failed to load resource/ : /status of 401/;
      expect(said.filter((text) => !harmless.test(text))).toEqual([]);
    },
  };
}

/** What axe-core finds in light and dark. */
export async function violationsOf(page: Page): Promise<readonly string[]> {
  const found: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run());
    for (const { id, nodes } of violations)
      found.push(`${colorScheme} ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
  }
  await page.emulateMedia({ colorScheme: null });
  return found;
}

/** Whether the page is wider than the window. */
export function overflows(page: Page): Promise<boolean> {
  return page.evaluate('document.documentElement.scrollWidth > window.innerWidth');
}

/** An API server that stands before another one and can hold writes back. */
export interface Gate {
  readonly url: string;
  /** The writes that come from now on wait for `release`; so many are let through before. */
  hold(through: number): void;
  release(): void;
  close(): Promise<void>;
}

export async function openGate(target: string): Promise<Gate> {
  let left = Number.POSITIVE_INFINITY;
  let waiting: (() => void)[] = [];
  const pass = (asked: IncomingMessage, answer: ServerResponse): void => {
    const { method, headers } = asked;
    const onward = request(`${target}${asked.url}`, { method, headers: { ...headers, connection: 'close' } }, (got) => {
      answer.writeHead(got.statusCode ?? 500, got.headers);
      got.pipe(answer);
    });
    asked.pipe(onward);
  };
  const server = createServer((asked, answer) => {
    if (asked.method !== 'GET' && left-- <= 0) waiting.push(() => pass(asked, answer));
    else pass(asked, answer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: (through) => {
      left = through;
    },
    release: () => {
      left = Number.POSITIVE_INFINITY;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
