/** One rule of the model: drop or accept of one network. Networks of one action never overlap. */
export type Model = ReadonlyMap<string, 'accept' | 'drop'>;

/** A small generator of numbers (mulberry32): a run is repeated by its seed. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export const pick = <T>(random: () => number, items: readonly T[]): T =>
  items[Math.floor(random() * items.length)] as T;

/** Networks that widen and narrow (so that gaps are needed), never overlapping within one action. */
export function randomModel(random: () => number): Model {
  const model = new Map<string, 'accept' | 'drop'>();
  for (let net = 0; net < 12; net++) {
    const size = pick(random, ['', '/24', '/28', null]);
    if (size === null) continue;
    const address = size === '' ? `10.0.${net}.5` : `10.0.${net}.0${size}`;
    model.set(address, random() < 0.5 ? 'accept' : 'drop');
  }
  if (model.size === 0) model.set('10.1.0.0/16', 'drop');
  return model;
}

function manifest(model: Model): string {
  return [...model]
    .map(
      ([destination, action], index) =>
        `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: r${index}}\nspec: {action: ${action}, destination: ${destination}}\n`,
    )
    .join('---\n');
}

export function remembered(models: Model[], model: Model): string {
  models.push(model);
  return manifest(model);
}
