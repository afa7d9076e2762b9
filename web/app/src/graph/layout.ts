// Places of a cone on a map: columns are levels below the target, rows are layers of the stack from
// the site down to the transistor. Within a cell, nodes stand near what they are used by.
//
// The layout is a generator that pauses often, so that its caller can spread it over frames; the
// result does not depend on where it pauses.

export interface Placed {
  readonly x: Float64Array;
  readonly y: Float64Array;
  /** The layers in view from top to bottom, with the rows that each takes. */
  readonly bands: readonly {
    readonly name: string;
    readonly top: number;
    readonly bottom: number;
  }[];
  readonly width: number;
  readonly height: number;
}

/** Rows of a cell; more nodes make it wider. */
const MOST_ROWS = 14;
const SWEEPS = 3;
/** Nodes between two pauses. */
const STRIDE = 512;

export function* layout(
  nodes: readonly number[],
  level: ArrayLike<number>,
  bandOf: (node: number) => string,
  bandOrder: readonly string[],
  neighbors: readonly (readonly (readonly number[])[])[],
): Generator<void, Placed> {
  const size = neighbors[0]!.length;
  const x = new Float64Array(size);
  const y = new Float64Array(size);
  const cells = yield* cellsOf(nodes, level, bandOf);
  const names = bandOrder.filter((name) => cells.has(name));
  // Start from the order of the graph; then pull each node towards its neighbors.
  const weight = new Float64Array(size);
  nodes.forEach((node, at) => {
    weight[node] = at;
  });
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    yield* order(names, cells, weight, neighbors[sweep % neighbors.length]!, new Set(nodes));
  }
  return yield* place(names, cells, x, y);
}

type Cells = Map<string, Map<number, number[]>>;

function* cellsOf(
  nodes: readonly number[],
  level: ArrayLike<number>,
  bandOf: (node: number) => string,
): Generator<void, Cells> {
  const cells: Cells = new Map();
  // Levels that nothing in view stands on take no column.
  const used = [...new Set(nodes.map((node) => level[node]!))].sort((one, other) => one - other);
  const column = new Map(used.map((one, at) => [one, at]));
  for (const [at, node] of nodes.entries()) {
    const band = bandOf(node);
    const row = cells.get(band) ?? cells.set(band, new Map()).get(band)!;
    const key = column.get(level[node]!)!;
    const cell = row.get(key);
    if (cell) cell.push(node);
    else row.set(key, [node]);
    if (at % STRIDE === STRIDE - 1) yield;
  }
  return cells;
}

/** Sort every cell by the mean position of the neighbors (barycenter heuristic, Sugiyama 1981). */
function* order(
  names: readonly string[],
  cells: Cells,
  weight: Float64Array,
  neighbors: readonly (readonly number[])[],
  inside: ReadonlySet<number>,
): Generator<void, void> {
  let since = 0;
  for (const name of names) {
    for (const cell of cells.get(name)!.values()) {
      const mean = new Map<number, number>();
      for (const node of cell) {
        let sum = 0;
        let count = 0;
        for (const other of neighbors[node]!) {
          if (!inside.has(other)) continue;
          sum += weight[other]!;
          count += 1;
        }
        mean.set(node, count ? sum / count : weight[node]!);
      }
      cell.sort((one, other) => mean.get(one)! - mean.get(other)! || one - other);
      since += cell.length;
      if (since >= STRIDE) {
        since = 0;
        yield;
      }
    }
  }
  // Positions over the whole map, so that neighbors in other cells can be compared.
  let position = 0;
  for (const name of names) {
    for (const cell of cells.get(name)!.values())
      for (const node of cell) weight[node] = position++;
  }
}

function* place(
  names: readonly string[],
  cells: Cells,
  x: Float64Array,
  y: Float64Array,
): Generator<void, Placed> {
  const widths: number[] = [];
  for (const name of names) {
    for (const [column, cell] of cells.get(name)!) {
      widths[column] = Math.max(widths[column] ?? 1, Math.ceil(cell.length / MOST_ROWS));
    }
  }
  const starts: number[] = [];
  let width = 0;
  for (const [column, across] of widths.entries()) {
    starts[column] = width;
    width += (across ?? 1) + 1.6;
  }
  const bands: { name: string; top: number; bottom: number }[] = [];
  let top = 0;
  for (const name of names) {
    const row = cells.get(name)!;
    const rows = Math.max(...[...row.values()].map((cell) => Math.min(cell.length, MOST_ROWS)));
    for (const [column, cell] of row) {
      const across = Math.ceil(cell.length / MOST_ROWS);
      const down = Math.ceil(cell.length / across);
      for (const [at, node] of cell.entries()) {
        x[node] = starts[column]! + Math.floor(at / down);
        // A short cell stands in the middle of its layer.
        y[node] = top + (at % down) + (rows - down) / 2;
      }
    }
    bands.push({ name, top, bottom: top + rows });
    top += rows + 1.2;
    yield;
  }
  return { x, y, bands, width, height: top };
}

/** Milliseconds of work in a frame; the rest of it is the browser's. */
const FRAME_BUDGET = 5;

/** Run a generator to its end, a slice of a few milliseconds in each frame. */
export function overFrames<Result>(
  work: Generator<void, Result>,
  signal: AbortSignal,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    function slice(): void {
      if (signal.aborted) return;
      const end = performance.now() + FRAME_BUDGET;
      try {
        do {
          const step = work.next();
          if (step.done) {
            // What follows would lengthen the last slice.
            requestAnimationFrame(() => resolve(step.value));
            return;
          }
        } while (performance.now() < end);
      } catch (error) {
        reject(error);
        return;
      }
      requestAnimationFrame(slice);
    }
    requestAnimationFrame(slice);
  });
}
