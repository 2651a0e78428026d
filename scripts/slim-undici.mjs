import { readFileSync } from 'node:fs';

// undici without what no command calls: fetch, HTTP/2, WebSocket, caches, mocks, snapshots. It is loaded at each start that asks the server.
export const slimUndici = {
  name: 'slim-undici',
  setup({ onLoad }) {
    onLoad({ filter: /undici[/\\]index\.js$/ }, () => ({ contents: entry }));
    // Bodies of `fetch` and forms; ours are text.
    onLoad({ filter: /undici[/\\]lib[/\\]web[/\\]fetch[/\\]body\.js$/ }, () => ({
      contents: 'exports.extractBody = null;',
    }));
    // Never offered to a server; it would load all of Node's.
    onLoad({ filter: /undici[/\\]lib[/\\]dispatcher[/\\]client-h2\.js$/ }, () => ({
      contents: 'module.exports = null;',
    }));
  },
};

/**
 * Without V8's second compilation of the HTTP parser, which the first answer starts otherwise: 50 ms of CPU and 30 MB, and the process
 * waits for it at its end. After some ten answers V8 does it as ever. The flag is put back to what it was: with another one, V8 rejects what
 * it compiled earlier. The budgets are those of Node 20, 22, 24 and 26.
 */
export const patientUndici = {
  name: 'patient-undici',
  setup({ onLoad }) {
    onLoad({ filter: /undici[/\\]lib[/\\]dispatcher[/\\]client-h1\.js$/ }, ({ path }) => {
      const call = 'llhttpInstance = lazyllhttp()';
      const parts = readFileSync(path, 'utf8').split(call);
      if (parts.length !== 2) throw new Error(`${path} loads its parser in another way`);
      return { contents: parts.join('llhttpInstance = patiently(lazyllhttp)') + patiently };
    });
  },
};

const patiently = `
function patiently (load) {
  const budgets = { 11: 1_800_000, 12: 13_000_000, 13: 13_000_000, 14: 13_000_000 };
  const usual = budgets[process.versions.v8.split('.')[0]];
  if (usual === undefined) return load();
  const { setFlagsFromString } = require('node:v8');
  setFlagsFromString('--wasm-tiering-budget=200000000');
  try {
    return load();
  } finally {
    setFlagsFromString('--wasm-tiering-budget=' + usual);
  }
}
`;

/** What `src/adapters` imports; a name that is missing here ends the build. */
const entry = `
const Dispatcher = require('./lib/dispatcher/dispatcher');
Dispatcher.prototype.request = require('./lib/api/api-request');
Dispatcher.prototype.connect = require('./lib/api/api-connect');
exports.Pool = require('./lib/dispatcher/pool');
exports.Agent = require('./lib/dispatcher/agent');
exports.EnvHttpProxyAgent = require('./lib/dispatcher/env-http-proxy-agent');
const { getGlobalDispatcher } = require('./lib/global');
exports.request = (address, { dispatcher = getGlobalDispatcher(), ...options }) => {
  const { origin, pathname, search } = new URL(address);
  return dispatcher.request({ ...options, origin, path: pathname + search });
};
`;
