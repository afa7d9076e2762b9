// The data of a timeline: spans by track, their labels, steps, and columns decoded when asked for.

import type { Blocks } from "./blocks";
import { type Column, type ColumnEntry, decodeColumn } from "./columns";

/** The version of the embedded data that this program reads. */
export const FORMAT = 1;

/** A stream or a thread. */
export interface LaneEntry {
  readonly name: string;
  readonly group: string;
  readonly kind: "stream" | "ranges" | "thread";
  readonly first: number;
  /** Spans in each of its tracks. */
  readonly tracks: readonly number[];
}

/** A step of the engine; times count from the start of the trace. */
export interface StepEntry {
  readonly step: number;
  readonly start: number;
  readonly end: number;
  readonly phase: string | null;
  readonly device_ns: number | null;
  readonly batch: number | null;
  readonly prefill_tokens: number | null;
  readonly context: number | null;
  readonly requests: number | null;
  readonly source: string | null;
}

/** What the page says of a trace before its columns are decoded. */
export interface Description {
  readonly format: number;
  readonly name: string;
  readonly rows: number;
  readonly origin_ns: string;
  readonly end: number;
  readonly header: {
    readonly source: string;
    readonly engine: string | null;
    readonly model: string | null;
    readonly clock: string;
  };
  readonly degradations: readonly string[];
  readonly columns: readonly ColumnEntry[];
  readonly lanes: readonly LaneEntry[];
  readonly steps: readonly StepEntry[];
}

/** A text column: `words[codes[row]]`, where -1 is null. */
export interface TextColumn {
  readonly codes: Int32Array;
  readonly words: readonly string[];
}

/** A row of spans that do not overlap, `first` to `end` of the arrays. */
export interface Track {
  readonly lane: number;
  readonly depth: number;
  readonly first: number;
  readonly end: number;
}

const NO_WORDS: readonly string[] = [];

export class TimelineData {
  readonly rows: number;
  readonly end: number;
  readonly tracks: readonly Track[];
  private readonly columns = new Map<string, Promise<Column | null>>();
  private readonly texts = new Map<string, Promise<TextColumn>>();

  private constructor(
    readonly description: Description,
    readonly start: Float64Array,
    readonly stop: Float64Array,
    readonly name: TextColumn,
    readonly op: TextColumn,
    readonly kind: TextColumn,
    readonly phase: TextColumn,
    private readonly blocks: Blocks,
  ) {
    this.rows = description.rows;
    this.end = Math.max(description.end, 1);
    this.tracks = tracksOf(description.lanes);
  }

  /** Decode what the first picture needs. */
  static async load(blocks: Blocks): Promise<TimelineData> {
    const text = new TextDecoder().decode(await blocks("description"));
    const description = JSON.parse(text) as Description;
    if (description.format !== FORMAT) {
      throw new Error(`expected data of format ${FORMAT}, got ${description.format}`);
    }
    const rows = description.rows;
    const [start, length, name, op, kind, phase] = await Promise.all([
      integerColumn(description, blocks, "start_ns"),
      integerColumn(description, blocks, "dur_ns"),
      ...["name", "op", "kind", "phase"].map((one) => textColumn(description, blocks, one)),
    ] as [
      Promise<Float64Array>,
      Promise<Float64Array>,
      ...[Promise<TextColumn>, Promise<TextColumn>, Promise<TextColumn>, Promise<TextColumn>],
    ]);
    const stop = new Float64Array(rows);
    for (let row = 0; row < rows; row++) stop[row] = start[row] + length[row];
    return new TimelineData(description, start, stop, name, op, kind, phase, blocks);
  }

  /** A numeric column, decoded on first use; null where the trace does not have it. */
  column(name: string): Promise<Column | null> {
    let found = this.columns.get(name);
    if (!found) {
      found = readColumn(this.description, this.blocks, name);
      this.columns.set(name, found);
    }
    return found;
  }

  /** A text column, decoded on first use. */
  text(name: string): Promise<TextColumn> {
    let found = this.texts.get(name);
    if (!found) {
      found = textColumn(this.description, this.blocks, name);
      this.texts.set(name, found);
    }
    return found;
  }

  /** Whether a row is a kernel, a copy or a fill: what occupies a device. */
  isOnDevice(row: number): boolean {
    const kind = this.kind.words[this.kind.codes[row]];
    return kind === "kernel" || kind === "memcpy" || kind === "memset";
  }

  /** The track that holds a row. */
  trackOf(row: number): Track {
    let low = 0;
    let high = this.tracks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tracks[middle].first <= row) low = middle;
      else high = middle - 1;
    }
    return this.tracks[low];
  }

  /** Every column of a row, as text; columns that the trace does not have are left out. */
  async describe(row: number): Promise<[string, string][]> {
    const fields: [string, string][] = [];
    // All at once, for the browser inflates several blocks at a time.
    await Promise.all(
      this.description.columns.map(
        (one): Promise<unknown> =>
          one.kind === "text" ? this.text(one.name) : this.column(one.name),
      ),
    );
    for (const entry of this.description.columns) {
      const text =
        entry.kind === "text"
          ? wordOf(await this.text(entry.name), row)
          : numberOf(await this.column(entry.name), row);
      if (text === null) continue;
      const isStart = entry.name === "start_ns";
      fields.push([
        entry.name,
        isStart ? (BigInt(this.description.origin_ns) + BigInt(text)).toString() : text,
      ]);
    }
    return fields;
  }
}

function wordOf(column: TextColumn, row: number): string | null {
  const code = column.codes[row];
  return code < 0 ? null : column.words[code];
}

function numberOf(column: Column | null, row: number): string | null {
  if (!column || column.nulls?.[row]) return null;
  return column.values[row].toString();
}

function tracksOf(lanes: readonly LaneEntry[]): Track[] {
  return lanes.flatMap((lane, index) => {
    let first = lane.first;
    return lane.tracks.map((size, depth) => {
      const track = { lane: index, depth, first, end: first + size };
      first = track.end;
      return track;
    });
  });
}

async function readColumn(
  description: Description,
  blocks: Blocks,
  name: string,
): Promise<Column | null> {
  const entry = description.columns.find((one) => one.name === name);
  return entry ? decodeColumn(entry, await blocks(name), description.rows) : null;
}

async function integerColumn(
  description: Description,
  blocks: Blocks,
  name: string,
): Promise<Float64Array> {
  const column = await readColumn(description, blocks, name);
  if (!column) return new Float64Array(description.rows);
  // Times are drawn as doubles; beyond 2^53 ns, 104 days, they round.
  return column.values instanceof Float64Array
    ? column.values
    : Float64Array.from(column.values, Number);
}

async function textColumn(
  description: Description,
  blocks: Blocks,
  name: string,
): Promise<TextColumn> {
  const column = await readColumn(description, blocks, name);
  if (!column) return { codes: new Int32Array(description.rows).fill(-1), words: NO_WORDS };
  const words = JSON.parse(new TextDecoder().decode(await blocks(`${name}.words`))) as string[];
  return { codes: Int32Array.from(column.values as Float64Array), words };
}
