const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/** Values both sides share: users, and the id that belongs to nobody. */
export const USERS = {
  admin: '9f054b2e-fff6-48e3-bd69-fc6886c493c8',
  alice: 'a1520c4b-adc3-4574-932a-94461cf85c07',
  bob: 'b9692cfa-f429-4ea6-947f-ad22d40fd18b',
} as const;

/**
 * What a recorded id or time is called in this run. A name is bound when it is first seen, and from then on it must be
 * the same on both sides: so an `updated_at` that should have changed, or should not have, is a difference.
 */
export class Mapping {
  private readonly forth = new Map<string, string>();
  private readonly back = new Map<string, string>();

  get size(): number {
    return this.forth.size;
  }

  /** Replaces every known recorded id in a text, whatever its case. */
  apply(text: string): string {
    return text.replace(UUID, (id) => {
      const bound = this.forth.get(id.toLowerCase());
      if (bound === undefined) return id;
      return id === id.toUpperCase() ? bound.toUpperCase() : bound;
    });
  }

  bound(recorded: string): string | undefined {
    return this.forth.get(recorded.toLowerCase());
  }

  bind(recorded: string, actual: string): boolean {
    const known = this.forth.get(recorded);
    if (known !== undefined || this.back.has(actual)) return known === actual;
    this.forth.set(recorded, actual);
    this.back.set(actual, recorded);
    return true;
  }

  /** The differences between a recorded and an actual value, as `path: recorded X, got Y`. */
  differences(recorded: unknown, actual: unknown, path = '$'): string[] {
    if (typeof recorded === 'string' && typeof actual === 'string') {
      if (this.sameText(recorded, actual, path)) return [];
    } else if (Array.isArray(recorded) && Array.isArray(actual)) {
      if (recorded.length === actual.length) {
        return recorded.flatMap((item, index) => this.differences(item, actual[index], `${path}[${index}]`));
      }
    } else if (isObject(recorded) && isObject(actual)) {
      const keys = [...new Set([...Object.keys(recorded), ...Object.keys(actual)])];
      return keys.flatMap((key) => this.differences(recorded[key], actual[key], `${path}.${key}`));
    } else if (recorded === actual) return [];
    return [`${path}: recorded ${JSON.stringify(recorded)}, got ${JSON.stringify(actual)}`];
  }

  private sameText(recorded: string, actual: string, path: string): boolean {
    if (recorded === actual) return true;
    if (TIME.test(recorded) && TIME.test(actual)) return this.bind(recorded, actual);
    if (path.endsWith('.id') && new RegExp(`^${UUID.source}$`, 'i').test(recorded)) {
      return !Object.values<string>(USERS).includes(recorded) && this.bind(recorded.toLowerCase(), actual);
    }
    return this.apply(recorded) === actual;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
