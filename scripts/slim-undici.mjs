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
