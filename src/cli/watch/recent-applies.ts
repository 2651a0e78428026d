import { type ApplyRecord, joinApplyRecords } from '../../pass/history.ts';
import { listHistory, loadRecord, openApplyHistory } from '../history.ts';

/** Who made an apply, in the history: the sidecar, or the sidecar as it takes back what nobody confirmed. */
export const sidecarNames = { apply: 'sidecar', back: 'sidecar, going back' } as const;

/** The applies of the newest revision: with their secrets, those of this process. */
export class RecentApplies {
  readonly stateFolder: string | null;
  #own: readonly ApplyRecord[] = [];

  /** `stateFolder`: where the history lies; null: there is none. */
  constructor(stateFolder: string | null) {
    this.stateFolder = stateFolder;
  }

  /** Takes the record of an apply, which begins or has ended. */
  readonly note = async (record: ApplyRecord): Promise<void> => {
    if (record.by !== sidecarNames.apply) return;
    this.#own = [...this.#own.filter(({ at, revision }) => at !== record.at && revision === record.revision), record];
  };

  /** What all of them changed together; null: nothing is recorded of this revision. */
  async join(revision: string): Promise<ApplyRecord | null> {
    const { applies, expires } = await this.#readHistory(revision);
    const records = new Map(applies.map((one) => [one.at, one]));
    for (const one of this.#own) if (one.revision === revision) records.set(one.at, one);
    const joined = joinApplyRecords([...records.values()]);
    return joined && { ...joined, expires: new Map([...expires, ...joined.expires]) };
  }

  /** The last applies, the oldest first, if they are of this revision; and when rules end that earlier ones made. */
  async #readHistory(revision: string): Promise<{ applies: ApplyRecord[]; expires: ApplyRecord['expires'] }> {
    const [applies, earlier]: [ApplyRecord[], ApplyRecord[]] = [[], []];
    if (this.stateFolder === null) return { applies, expires: new Map() };
    const files = openApplyHistory(this.stateFolder);
    for (const number of await listHistory(files)) {
      const record = await loadRecord(files, number);
      if (!record.ok || record.value.by === sidecarNames.back) continue;
      const isOurs = record.value.revision === revision && record.value.by === sidecarNames.apply;
      (isOurs && earlier.length === 0 ? applies : earlier).unshift(record.value);
    }
    return { applies, expires: new Map(earlier.flatMap((one) => [...one.expires])) };
  }
}
