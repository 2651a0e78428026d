import { type JsonTerm, readObject } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json } from '../http/response.ts';
import { type ChangeRules, castConfiguration } from './change.ts';
import { type ConfigurationStore, showConfiguration } from './store.ts';

/** The two operations on the configuration, for a caller who may use them. */
export class ConfigurationEndpoints {
  readonly #store: ConfigurationStore;
  readonly #rules: ChangeRules;

  constructor(store: ConfigurationStore, rules: ChangeRules) {
    this.#store = store;
    this.#rules = rules;
  }

  show(): HttpAnswer {
    return json(200, { data: showConfiguration(this.#store.row) });
  }

  async update(sent: JsonTerm): Promise<HttpAnswer> {
    const change = await castConfiguration(this.#store.row, readObject(sent), this.#rules);
    if (!change.ok) return answerInvalid(change.errors);
    if (change.changed.size === 0) return this.show();
    return json(200, { data: showConfiguration(this.#store.update(change.values, change.changed)) });
  }
}
