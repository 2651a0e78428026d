// undici without what no command calls: fetch, WebSocket, caches, mocks, snapshots. It is loaded at each start that asks the server.
export const slimUndici = {
  name: 'slim-undici',
  setup({ onLoad }) {
    onLoad({ filter: /undici[/\\]index\.js$/ }, () => ({ contents: entry }));
    // Bodies of `fetch` and forms; ours are text.
    onLoad({ filter: /undici[/\\]lib[/\\]web[/\\]fetch[/\\]body\.js$/ }, () => ({
      contents: 'exports.extractBody = null;',
    }));
  },
};

/** What `src/adapters` imports; a name that is missing here ends the build. */
const entry = `
const Dispatcher = require('./lib/dispatcher/dispatcher');
Object.assign(Dispatcher.prototype, require('./lib/api'));
exports.Pool = require('./lib/dispatcher/pool');
exports.Agent = require('./lib/dispatcher/agent');
exports.EnvHttpProxyAgent = require('./lib/dispatcher/env-http-proxy-agent');
const { getGlobalDispatcher } = require('./lib/global');
exports.request = (address, { dispatcher = getGlobalDispatcher(), ...options }) => {
  const { origin, pathname, search } = new URL(address);
  return dispatcher.request({ ...options, origin, path: pathname + search });
};
`;
