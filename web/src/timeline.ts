// The timeline: puts bar, chart and panel together and keeps what is selected, found and visible.

import { Chart, type Hit } from "./chart";
import {
  COLOR_MODES,
  type ColorMode,
  colorsOf,
  type Labels,
  labelsOf,
  ranked,
  type Theme,
} from "./colors";
import type { StepEntry, TimelineData } from "./data";
import { Detail } from "./detail";
import { element } from "./dom";
import { helpDialog } from "./help";
import { readLink, writeLink } from "./link";
import { Panel } from "./panel";
import { laneKey } from "./rows";
import { Search } from "./search";
import { statistics } from "./statistics";
import { Toolbar } from "./toolbar";
import { Viewport } from "./viewport";

/** A stretch of time that is selected; of a step, with it. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly step: StepEntry | null;
}

export interface TimelineOptions {
  /** Follow and write the address of the page; a timeline inside another page does not. */
  readonly usesAddress?: boolean;
}

export class Timeline {
  readonly viewport: Viewport;
  readonly detail: Detail;
  readonly chart: Chart;
  private readonly panel: Panel;
  private readonly toolbar: Toolbar;
  private readonly help = helpDialog();
  private readonly root: HTMLElement;
  private readonly labels = new Map<ColorMode, Labels>();
  private readonly collapsed = new Set<string>();
  private mode: ColorMode;
  private theme: Theme;
  private search: Search | null = null;
  private selected: number | null = null;
  private range: Range | null = null;
  private settling = 0;
  private readonly leave = new AbortController();

  constructor(
    host: HTMLElement,
    readonly data: TimelineData,
    private readonly options: TimelineOptions = {},
  ) {
    this.detail = new Detail(data.start, data.stop);
    this.viewport = new Viewport(data.end);
    this.viewport.fitAll();
    this.mode = data.op.words.length ? "op" : "kernel";
    this.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.panel = new Panel(data, {
      select: (row) => this.select(row, true),
      search: (text) => this.find(text),
    });
    this.toolbar = new Toolbar(data, {
      search: (query) => this.find(query),
      step: (isForward) => this.nextMatch(isForward),
      color: (mode) => this.colorBy(mode),
      fit: () => this.fitAll(),
      theme: () => this.setTheme(this.theme === "dark" ? "light" : "dark"),
      help: () => this.help.showModal(),
    });
    this.chart = new Chart(data, this.detail, this.viewport, {
      changed: () => this.settle(),
      hit: (hit, isDouble) => this.click(hit, isDouble),
      range: (from, to) => this.selectRange({ from, to, step: null }),
      toggle: (key) => this.toggle(key),
    });
    this.root = element(
      "div",
      { class: "at" },
      this.toolbar.root,
      element("div", { class: "at-main" }, this.chart.root, this.panel.root),
      this.help,
    );
    host.replaceChildren(this.root);
    this.collapseQuietLanes();
    this.setTheme(this.theme);
    this.chart.attach();
    const { signal } = this.leave;
    document.addEventListener("keydown", (event) => this.key(event), { signal });
    if (options.usesAddress) {
      window.addEventListener("hashchange", () => this.follow(), { signal });
      this.follow();
    }
    this.settle();
  }

  /** Remove the timeline and its listeners. */
  destroy(): void {
    this.leave.abort();
    this.chart.destroy();
    this.root.remove();
  }

  /** Show a step; false where the trace does not have it. */
  showStep(number: number): boolean {
    const step = this.data.description.steps.find((one) => one.step === number);
    if (!step) return false;
    this.viewport.fit(step.start, step.end);
    this.selectRange({ from: step.start, to: step.end, step });
    return true;
  }

  /** Select a span, and bring it into view. */
  select(row: number, isFitted: boolean): void {
    this.selected = row;
    this.range = null;
    this.chart.setSelection(row, null);
    if (isFitted) this.chart.bringIntoView(row);
    const labels = this.labelsOf(this.mode);
    const color = colorsOf(labels, this.mode, this.theme)[labels.codes[row]];
    this.panel.showSpan(row, color).catch((error: Error) => this.panel.root.append(error.message));
    this.sayFound();
  }

  find(query: string): void {
    if (this.toolbar.input.value !== query) this.toolbar.input.value = query;
    try {
      this.search = query ? new Search(this.data, query) : null;
      this.sayFound();
    } catch (error) {
      this.search = null;
      this.toolbar.setFound(error instanceof SyntaxError ? "not an expression" : String(error));
    }
    this.chart.setSearch(this.search);
    this.settle();
  }

  private sayFound(): void {
    const isMatch =
      this.search !== null && this.selected !== null && this.search.has(this.selected);
    const position = isMatch ? this.search!.position(this.selected!) : null;
    this.toolbar.setFound(null, this.search?.total ?? 0, position);
  }

  private nextMatch(isForward: boolean): void {
    if (!this.search?.total) return;
    const row =
      this.search.neighbor(this.selected, isForward) ?? this.search.neighbor(null, isForward);
    if (row !== null) this.select(row, true);
  }

  colorBy(mode: ColorMode): void {
    this.mode = mode;
    this.toolbar.setColor(mode);
    this.restyle();
  }

  private setTheme(theme: Theme): void {
    this.theme = theme;
    this.root.dataset["theme"] = theme;
    this.restyle();
  }

  private restyle(): void {
    this.toolbar.setColor(this.mode);
    const labels = this.labelsOf(this.mode);
    this.chart.setLook(labels, colorsOf(labels, this.mode, this.theme), this.theme);
    if (this.selected !== null) this.select(this.selected, false);
    this.settle();
  }

  private labelsOf(mode: ColorMode): Labels {
    let found = this.labels.get(mode);
    if (!found) {
      found = ranked(this.data, labelsOf(this.data, mode));
      this.labels.set(mode, found);
    }
    return found;
  }

  private selectRange(range: Range): void {
    this.range = range;
    this.selected = null;
    this.chart.setSelection(null, range);
    this.summarize();
    this.sayFound();
  }

  private click(hit: Hit, isDouble: boolean): void {
    if (hit.kind === "span") {
      this.select(hit.row, false);
      if (isDouble) this.fitSelection();
    } else if (hit.kind === "step") {
      this.selectRange({ from: hit.step.start, to: hit.step.end, step: hit.step });
      if (isDouble) this.fitSelection();
    } else this.clear();
  }

  private clear(): void {
    this.selected = null;
    this.range = null;
    this.chart.setSelection(null, null);
    this.sayFound();
    this.summarize();
  }

  private fitAll(): void {
    this.viewport.fitAll();
    this.chart.invalidate();
    this.settle();
  }

  private fitSelection(): void {
    if (this.range) this.viewport.fit(this.range.from, this.range.to);
    else if (this.selected !== null) {
      const { start, stop } = this.data;
      const room = Math.max((stop[this.selected] - start[this.selected]) * 0.5, 50);
      this.viewport.show(start[this.selected] - room, stop[this.selected] + room);
    }
    this.chart.invalidate();
    this.settle();
  }

  private toggle(key: string): void {
    if (!this.collapsed.delete(key)) this.collapsed.add(key);
    this.chart.setCollapsed(this.collapsed);
  }

  /** Deep threads are folded where there are many lanes: devices come first. */
  private collapseQuietLanes(): void {
    const { lanes } = this.data.description;
    if (lanes.length > 12) {
      lanes.forEach((lane, index) => {
        if (lane.kind === "thread" && lane.tracks.length > 2) this.collapsed.add(laneKey(index));
      });
    }
    this.chart.setCollapsed(this.collapsed);
  }

  /** Sum up what is visible and write the address, once movement has ended. */
  private settle(): void {
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => {
      if (this.selected === null) this.summarize();
      this.writeAddress();
    }, 160);
  }

  private summarize(): void {
    const labels = this.labelsOf(this.mode);
    const coloring = { mode: this.mode, theme: this.theme, labels };
    const from = this.range?.from ?? Math.max(this.viewport.from, 0);
    const to = this.range?.to ?? Math.min(this.viewport.to, this.data.end);
    const found = statistics(this.data, this.detail, labels, from, to);
    if (this.range) this.panel.showRange(found, coloring, from, to, this.range.step);
    else this.panel.showOverview(found, coloring, from, to);
  }

  private follow(): void {
    const link = readLink(location.hash);
    if (link.search) this.find(link.search);
    if (link.from !== undefined && link.to !== undefined) this.viewport.show(link.from, link.to);
    else if (link.step !== undefined && !this.showStep(link.step)) {
      this.chart.say(`The trace has no step ${link.step}.`);
    }
    this.chart.invalidate();
  }

  private writeAddress(): void {
    if (!this.options.usesAddress) return;
    const link = {
      ...(this.range?.step ? { step: this.range.step.step } : {}),
      from: Math.round(this.viewport.from),
      to: Math.round(this.viewport.to),
      ...(this.search ? { search: this.search.query } : {}),
    };
    try {
      history.replaceState(null, "", writeLink(link));
    } catch {
      // Some viewers of local files refuse it; the address then stays as it was opened.
    }
  }

  private key(event: KeyboardEvent): void {
    if (this.help.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "Escape") {
      this.toolbar.input.blur();
      this.find("");
      this.clear();
      return;
    }
    if (isTyping || event.target instanceof HTMLSelectElement) return;
    const action = this.keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  }

  private readonly keys: Readonly<Record<string, (event: KeyboardEvent) => void>> = {
    "/": () => this.toolbar.input.select(),
    "?": () => this.help.showModal(),
    "0": () => this.fitAll(),
    Home: () => this.fitAll(),
    f: () => this.fitSelection(),
    c: () => {
      const at = COLOR_MODES.findIndex(([mode]) => mode === this.mode);
      this.colorBy(COLOR_MODES[(at + 1) % COLOR_MODES.length][0]);
    },
    "[": () => this.nextStep(-1),
    "]": () => this.nextStep(1),
    Enter: (event) => this.nextMatch(!event.shiftKey),
    ArrowLeft: () => this.walk(-1),
    ArrowRight: () => this.walk(1),
    ArrowUp: () => this.climb(-1),
    ArrowDown: () => this.climb(1),
  };

  private nextStep(by: number): void {
    const { steps } = this.data.description;
    if (!steps.length) return;
    const current = this.range?.step;
    const middle = (this.viewport.from + this.viewport.to) / 2;
    const at = current
      ? steps.indexOf(current) + by
      : steps.findIndex((step) => step.end >= middle);
    const step = steps[Math.min(Math.max(at, 0), steps.length - 1)];
    this.showStep(step.step);
    this.settle();
  }

  private walk(by: number): void {
    if (this.selected === null) return;
    const track = this.data.trackOf(this.selected);
    const row = this.selected + by;
    if (row >= track.first && row < track.end) this.select(row, true);
  }

  private climb(by: number): void {
    if (this.selected === null) return;
    const track = this.data.trackOf(this.selected);
    const other = this.data.tracks.find(
      (one) => one.lane === track.lane && one.depth === track.depth + by,
    );
    if (!other) return;
    const { start, stop } = this.data;
    const row = this.detail.firstEndingAfter(start[this.selected], other.first, other.end);
    if (row < other.end && start[row] < stop[this.selected]) this.select(row, true);
  }
}
