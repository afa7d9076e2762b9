// Made-up tracks from a fixed seed.

export function generator(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Spans that do not overlap, in order. */
export function spans(count: number, seed: number, longest = 30): [Float64Array, Float64Array] {
  const random = generator(seed);
  const start = new Float64Array(count);
  const stop = new Float64Array(count);
  let clock = random(50);
  for (let row = 0; row < count; row++) {
    start[row] = clock;
    stop[row] = clock + random(longest);
    clock = stop[row] + (random(3) ? random(20) : 0) + (stop[row] === clock ? 1 : 0);
  }
  return [start, stop];
}
