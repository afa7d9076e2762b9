// The panel beside the chart: what is selected, or a summary of what is visible.

import { type ColorMode, colorsOf, type Labels, type Theme } from "./colors";
import type { StepEntry, TimelineData } from "./data";
import { element, swatch } from "./dom";
import type { Statistics } from "./statistics";
import { count, duration, percent, printable, shortened } from "./text";

const ROWS = 40;
const LINKS = 6;
const HEADLINE = ["op", "layer", "step", "phase", "grid", "block"] as const;

export interface PanelActions {
  readonly select: (row: number) => void;
  readonly search: (text: string) => void;
}

/** The colors in which labels are shown. */
export interface Coloring {
  readonly mode: ColorMode;
  readonly theme: Theme;
  readonly labels: Labels;
}

type Fact = readonly [string, string];

/** Label and value pairs. */
function facts(pairs: readonly Fact[]): HTMLElement {
  const list = element("dl", { class: "at-facts" });
  for (const [label, value] of pairs) {
    list.append(element("dt", {}, label), element("dd", {}, value));
  }
  return list;
}

function heading(text: string, detail = ""): HTMLElement {
  const made = element("h2", {}, text);
  if (detail) made.append(element("span", { class: "at-muted" }, ` ${detail}`));
  return made;
}

export class Panel {
  readonly root = element("aside", {
    class: "at-panel",
    attributes: { "aria-label": "Selection", "aria-live": "polite" },
  });
  private turn = 0;

  constructor(
    private readonly data: TimelineData,
    private readonly actions: PanelActions,
  ) {}

  /** The trace, and what is visible of it. */
  showOverview(found: Statistics, coloring: Coloring, from: number, to: number): void {
    this.turn++;
    const { header, rows, degradations, lanes, steps } = this.data.description;
    const pairs: Fact[] = [
      ["model", printable(header.model ?? "")],
      ["engine", printable(header.engine ?? "")],
      ["source", printable(header.source)],
      ["events", count(rows)],
      ["lanes", count(lanes.length)],
      ["steps", steps.length ? count(steps.length) : "none found"],
      ["length", duration(this.data.end)],
    ];
    this.root.replaceChildren(
      heading("Trace"),
      facts(pairs.filter(([, value]) => value)),
      ...this.warnings(degradations),
      heading("In view", duration(to - from)),
      ...this.sums(found, coloring, to - from),
    );
  }

  /** What ran within a selected range; a step is one. */
  showRange(
    found: Statistics,
    coloring: Coloring,
    from: number,
    to: number,
    step: StepEntry | null,
  ): void {
    this.turn++;
    const pairs: Fact[] = [
      ["from", duration(from)],
      ["to", duration(to)],
      ["device time", duration(found.time)],
      ["spans", count(found.count)],
    ];
    if (step) {
      const known: [string, number | string | null][] = [
        ["phase", step.phase],
        ["batch", step.batch],
        ["prefill tokens", step.prefill_tokens],
        ["context", step.context],
        ["requests", step.requests],
        ["boundaries by", step.source],
      ];
      for (const [label, value] of known) {
        if (value === null) continue;
        pairs.push([label, typeof value === "number" ? count(value) : printable(value)]);
      }
    }
    this.root.replaceChildren(
      heading(step ? `Step ${step.step}` : "Range", duration(to - from)),
      facts(pairs),
      ...this.sums(found, coloring, to - from),
    );
  }

  /** Every column of a span, and the spans that are linked with it. */
  async showSpan(row: number, color: string): Promise<void> {
    const turn = ++this.turn;
    const lane = this.data.description.lanes[this.data.trackOf(row).lane];
    const name = this.data.name.words[this.data.name.codes[row]] ?? "(no name)";
    const title = element("h2", { class: "at-name" }, swatch(color));
    title.append(element("span", {}, shortened(name)));
    const known: Fact[] = [
      ["lane", printable(`${lane.group}, ${lane.name}`)],
      ["start", duration(this.data.start[row])],
      ["duration", duration(this.data.stop[row] - this.data.start[row])],
    ];
    // The other columns are decoded when they are first asked for, which takes a moment.
    this.root.replaceChildren(title, facts(known));
    const [fields, linked] = await Promise.all([this.data.describe(row), this.linked(row)]);
    if (turn !== this.turn) return;
    const values = new Map(fields);
    for (const column of HEADLINE) {
      const value = values.get(column);
      if (value !== undefined) known.push([column, shortened(value)]);
    }
    const all = fields.filter(([column]) => column !== "args");
    this.root.replaceChildren(
      title,
      facts(known),
      ...this.links(linked),
      heading("Columns"),
      facts(all.map(([column, value]): Fact => [column, shortened(value)])),
      ...argumentsOf(values.get("args")),
    );
  }

  /** Rows with the same correlation: the call that launched a kernel, and what it launched. */
  private async linked(row: number): Promise<number[]> {
    const column = await this.data.column("correlation");
    if (!column || column.nulls?.[row]) return [];
    const wanted = column.values[row];
    const found: number[] = [];
    for (let at = 0; at < this.data.rows; at++) {
      if (column.values[at] === wanted && at !== row && !column.nulls?.[at]) found.push(at);
    }
    // The call first: a replay of a graph has hundreds of kernels.
    const isKernel = (one: number): number => Number(this.data.isOnDevice(one));
    return found.sort((one, other) => isKernel(one) - isKernel(other) || one - other);
  }

  private links(rows: readonly number[]): HTMLElement[] {
    if (!rows.length) return [];
    const list = element("ul", { class: "at-links" });
    for (const row of rows.slice(0, LINKS)) {
      const name = this.data.name.words[this.data.name.codes[row]] ?? "(no name)";
      const attributes = { type: "button" };
      const onClick = () => this.actions.select(row);
      const link = element(
        "button",
        { class: "at-link", attributes, onClick },
        shortened(name, 120),
      );
      const when = duration(this.data.start[row]);
      list.append(element("li", {}, link, element("span", { class: "at-muted" }, ` at ${when}`)));
    }
    const rest = rows.length - LINKS;
    if (rest > 0) list.append(element("li", { class: "at-muted" }, `and ${count(rest)} more`));
    return [heading("Linked by correlation"), list];
  }

  private warnings(texts: readonly string[]): HTMLElement[] {
    if (!texts.length) return [];
    const list = element("ul", { class: "at-warnings" });
    for (const text of texts) list.append(element("li", {}, shortened(text, 400)));
    return [list];
  }

  /** A table of device time by label, which is the legend of the colors too. */
  private sums(found: Statistics, coloring: Coloring, length: number): HTMLElement[] {
    if (!found.sums.length) {
      return [element("p", { class: "at-empty" }, "Nothing ran on a device here.")];
    }
    const colors = colorsOf(coloring.labels, coloring.mode, coloring.theme);
    const largest = found.sums[0].time;
    const table = element("table", { class: "at-sums" });
    const head = element("tr");
    for (const title of [
      coloring.mode === "op" ? "operation" : coloring.mode,
      "time",
      "share",
      "count",
    ]) {
      head.append(element("th", {}, title));
    }
    table.append(element("thead", {}, head));
    const body = element("tbody");
    for (const one of found.sums.slice(0, ROWS)) {
      const word = coloring.labels.words[one.code];
      const bar = element("span", { class: "at-share" });
      bar.style.width = `${(one.time / Math.max(largest, 1)) * 100}%`;
      bar.style.background = colors[one.code];
      const onClick = () => this.actions.search(word);
      const attributes = { type: "button" };
      const options = { class: "at-link", title: shortened(word, 400), attributes, onClick };
      const label = element(
        "button",
        options,
        swatch(colors[one.code]),
        shortened(word.replace(/^void /, ""), 160),
      );
      body.append(
        element(
          "tr",
          {},
          element("td", {}, label, bar),
          element("td", {}, duration(one.time)),
          element("td", {}, percent(one.time / Math.max(found.time, 1))),
          element("td", {}, count(one.count)),
        ),
      );
    }
    table.append(body);
    const rest = found.sums.length - ROWS;
    const lanes = found.busy.map(({ lane, time }): Fact => {
      const entry = this.data.description.lanes[lane];
      return [printable(`${entry.group}, ${entry.name}`), `${percent(time / length)} busy`];
    });
    return [
      table,
      ...(rest > 0 ? [element("p", { class: "at-muted" }, `and ${count(rest)} more`)] : []),
      facts(lanes.slice(0, 16)),
    ];
  }
}

/** The JSON object of what else a source said, a line a field. */
function argumentsOf(text: string | undefined): HTMLElement[] {
  if (text === undefined) return [];
  let pairs: Fact[];
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== "object" || parsed === null) throw new Error("not an object");
    pairs = Object.entries(parsed).map(([name, value]): Fact => {
      const shown = typeof value === "string" ? value : JSON.stringify(value);
      return [shortened(name, 120), shortened(shown)];
    });
  } catch {
    pairs = [["args", shortened(text)]];
  }
  return [heading("Arguments"), facts(pairs)];
}
