import { ServerCrash } from '../crash.ts';
import { isMap, type Term } from '../http/json.ts';
import type { Answer } from '../http/response.ts';
import { plain } from './plain.ts';
import { type ConfigurationStore, DEFAULTS, showConfiguration } from './store.ts';

/** The two operations on the configuration, for a caller who may use them. */
export class ConfigurationEndpoints {
  private readonly store: ConfigurationStore;

  constructor(store: ConfigurationStore) {
    this.store = store;
  }

  show(): Answer {
    return { kind: 'json', status: 200, body: showConfiguration(this.store.get()) };
  }

  async update(sent: Term): Promise<Answer> {
    if (!isMap(sent)) throw new ServerCrash('the wrapper is no object');
    const changes: Record<string, unknown> = {};
    for (const [field, term] of sent) if (field in DEFAULTS) changes[field] = plain(term);
    if (Object.keys(changes).length > 0) this.store.update(changes);
    return this.show();
  }
}
