import assert from "node:assert/strict";
import { test } from "node:test";
import { colorsOf, labelsOf, ranked } from "../src/colors";
import { TimelineData } from "../src/data";
import { Detail } from "../src/detail";
import { Search } from "../src/search";
import { statistics } from "../src/statistics";
import { generator, spans } from "./random";

const NAMES = ["gemm_a", "Gemm_B", "norm", "softmax"];

/** Data of lanes with one track each, as a page would hold it. */
async function made(counts: number[]): Promise<TimelineData> {
  const random = generator(4);
  const tracks = counts.map((count, at) => spans(count, at + 11));
  const start = tracks.flatMap(([starts]) => [...starts]);
  const length = tracks.flatMap(([starts, stops]) => [...stops].map((one, at) => one - starts[at]));
  const rows = start.length;
  let first = 0;
  const lanes = counts.map((count, at) => {
    const lane = {
      name: `stream ${at}`,
      group: "device 0",
      kind: "stream",
      first,
      tracks: [count],
    };
    first += count;
    return lane;
  });
  const integer = { kind: "integer", width: 4, delta: false, nulls: false };
  const description = {
    format: 1,
    name: "made",
    rows,
    origin_ns: "1000",
    end: Math.max(...start.map((one, at) => one + length[at])),
    header: { source: "test", engine: null, model: null, clock: "unknown" },
    degradations: [],
    columns: [
      { name: "start_ns", ...integer },
      { name: "dur_ns", ...integer },
      { name: "name", ...integer, kind: "text", width: 1 },
      { name: "kind", ...integer, kind: "text", width: 1 },
    ],
    lanes,
    steps: [],
  };
  const planes = (values: number[], width: number): Uint8Array =>
    Uint8Array.from(
      Array.from({ length: width }, (_, plane) =>
        values.map((value) => Math.floor((value * 2) / 256 ** plane) % 256),
      ).flat(),
    );
  const blocks: Record<string, Uint8Array> = {
    description: new TextEncoder().encode(JSON.stringify(description)),
    start_ns: planes(start, 4),
    dur_ns: planes(length, 4),
    name: planes(
      start.map(() => random(NAMES.length)),
      1,
    ),
    kind: new Uint8Array(rows),
    "kind.words": new TextEncoder().encode('["kernel"]'),
    "name.words": new TextEncoder().encode(JSON.stringify(NAMES)),
  };
  return TimelineData.load(async (name) => blocks[name]);
}

test("every match is visited once, in the order of time, forward and backward", async () => {
  const data = await made([60, 45, 1]);
  for (const query of ["gemm", "norm", "/^gemm_.$/", "softmax", "nothing"]) {
    const search = new Search(data, query);
    const pattern = query === "nothing" ? /nothing/ : new RegExp(query.replaceAll("/", ""), "i");
    const expected = Array.from({ length: data.rows }, (_, row) => row)
      .filter((row) => pattern.test(NAMES[data.name.codes[row]]))
      .sort((one, other) => data.start[one] - data.start[other] || one - other);
    assert.equal(search.total, expected.length);
    for (const isForward of [true, false]) {
      const seen: number[] = [];
      let row = search.neighbor(null, isForward);
      while (row !== null && seen.length <= data.rows) {
        seen.push(row);
        row = search.neighbor(row, isForward);
      }
      assert.deepEqual(isForward ? seen : seen.reverse(), expected);
    }
    expected.forEach((row, at) => {
      assert.equal(search.position(row), at + 1);
    });
  }
});

test("the names with the most time differ in color", async () => {
  const data = await made([50, 30]);
  const labels = ranked(data, labelsOf(data, "kernel"));
  const colors = colorsOf(labels, "kernel", "light");
  const used = NAMES.map((name) => colors[labels.words.indexOf(name)]);
  assert.equal(new Set(used).size, NAMES.length);
  const { sums } = statistics(data, new Detail(data.start, data.stop), labels, 0, data.end);
  assert.deepEqual(
    sums.map((one) => labels.ranks[one.code]),
    sums.map((_, rank) => rank),
  );
});

test("an expression that is none is refused", async () => {
  const data = await made([3]);
  assert.throws(() => new Search(data, "/(/"), SyntaxError);
});

test("sums of a range are those of the clipped spans", async () => {
  const data = await made([50, 30]);
  const detail = new Detail(data.start, data.stop);
  const [from, to] = [100, 420];
  const found = statistics(data, detail, data.name, from, to);
  for (const [code, name] of NAMES.entries()) {
    let time = 0;
    for (let row = 0; row < data.rows; row++) {
      if (data.name.codes[row] !== code) continue;
      time += Math.max(Math.min(data.stop[row], to) - Math.max(data.start[row], from), 0);
    }
    assert.equal(found.sums.find((one) => one.code === code)?.time ?? 0, time, name);
  }
  assert.equal(
    found.time,
    found.busy.reduce((total, one) => total + one.time, 0),
  );
});

test("a start is told on the clock of the trace", async () => {
  const data = await made([2]);
  const fields = new Map(await data.describe(1));
  assert.equal(fields.get("start_ns"), String(1000 + data.start[1]));
  assert.equal(fields.get("name"), NAMES[data.name.codes[1]]);
});

test("data of a later format is refused", async () => {
  const text = JSON.stringify({ format: 2 });
  await assert.rejects(
    TimelineData.load(async () => new TextEncoder().encode(text)),
    /expected data of format 1, got 2/,
  );
});
