// The chart: names of lanes beside a canvas of tracks, under a ruler; pointer, wheel and keys.

import type { Theme } from "./colors";
import type { StepEntry, TextColumn, TimelineData } from "./data";
import type { Detail } from "./detail";
import { element } from "./dom";
import { Painter } from "./painter";
import { laneKey, layOut, type Rows, type TrackBand } from "./rows";
import { AXIS_HEIGHT, type Ink, OVERVIEW_HEIGHT, Ruler, ticks } from "./ruler";
import type { Search } from "./search";
import { duration, printable, shortened } from "./text";
import type { Viewport } from "./viewport";

export type Hit =
  | { readonly kind: "span"; readonly row: number }
  | { readonly kind: "step"; readonly step: StepEntry }
  | { readonly kind: "nothing" };

export interface ChartActions {
  readonly changed: () => void;
  readonly hit: (hit: Hit, isDouble: boolean) => void;
  readonly range: (from: number, to: number) => void;
  readonly toggle: (key: string) => void;
}

type Stretch = { readonly from: number; readonly to: number };
type Drag = "pan" | "range" | "overview";

const CLICK_DISTANCE = 4;

export class Chart {
  readonly root: HTMLElement;
  private readonly names = element("div", { class: "at-names" });
  private readonly canvas = element("canvas", {
    class: "at-canvas",
    attributes: { tabindex: "0", role: "application", "aria-label": "Timeline of spans" },
  });
  private readonly top = element("canvas", { class: "at-top" });
  private readonly scroll = element("div", { class: "at-scroll" });
  private readonly lanes = element("div", { class: "at-lanes" });
  private readonly tip = element("div", { class: "at-tip", attributes: { hidden: "" } });
  private readonly toast = element("div", { class: "at-toast", attributes: { role: "status" } });
  private readonly painter: Painter;
  private readonly ruler: Ruler;
  private readonly context: CanvasRenderingContext2D;
  private readonly topContext: CanvasRenderingContext2D;
  private readonly resizes: ResizeObserver;
  private readonly leave = new AbortController();
  private readonly pressed = new Set<string>();
  private readonly pointers = new Map<number, PointerEvent>();
  private rows: Rows = { names: [], tracks: [], height: 0 };
  private theme: Theme = "light";
  private ink: Ink | null = null;
  private search: Search | null = null;
  private selected: number | null = null;
  private range: Stretch | null = null;
  private width = 0;
  private height = 0;
  private frame = 0;
  private moved = 0;
  private drag: Drag = "pan";
  private lastTime = 0;

  constructor(
    private readonly data: TimelineData,
    private readonly detail: Detail,
    private readonly viewport: Viewport,
    private readonly actions: ChartActions,
  ) {
    this.painter = new Painter(data, detail);
    this.ruler = new Ruler(data, detail);
    this.context = this.canvas.getContext("2d", { alpha: false })!;
    this.topContext = this.top.getContext("2d")!;
    const corner = element("div", { class: "at-corner" }, element("span", {}, "whole trace"));
    if (data.description.steps.length) corner.append(element("span", {}, "steps"));
    this.lanes.append(this.names, this.canvas);
    this.scroll.append(this.lanes);
    this.root = element(
      "section",
      { class: "at-chart", attributes: { "aria-label": "Timeline" } },
      element("div", { class: "at-head" }, corner, this.top),
      this.scroll,
      this.tip,
      this.toast,
    );
    this.resizes = new ResizeObserver(() => this.resize());
  }

  /** Start to listen and draw, once the chart is in the page. */
  attach(): void {
    const { signal } = this.leave;
    this.resizes.observe(this.scroll);
    this.scroll.addEventListener("scroll", () => this.invalidate(), { signal, passive: true });
    for (const surface of [this.canvas, this.top]) {
      surface.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
      surface.addEventListener("pointerdown", (event) => this.down(event), { signal });
      surface.addEventListener("pointermove", (event) => this.move(event), { signal });
      surface.addEventListener("pointerup", (event) => this.up(event), { signal });
      surface.addEventListener("pointercancel", (event) => this.up(event), { signal });
      surface.addEventListener("pointerleave", () => this.hideTip(), { signal });
      surface.addEventListener("dblclick", (event) => this.doubleClick(event), { signal });
    }
    document.addEventListener("keydown", (event) => this.press(event), { signal });
    document.addEventListener("keyup", (event) => this.pressed.delete(event.code), { signal });
    window.addEventListener("blur", () => this.pressed.clear(), { signal });
    this.resize();
  }

  destroy(): void {
    this.leave.abort();
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  setLook(labels: TextColumn, colors: readonly string[], theme: Theme): void {
    this.theme = theme;
    const style = getComputedStyle(this.root);
    const color = (name: string): string => style.getPropertyValue(`--at-${name}`).trim();
    this.ink = {
      ink: color("ink"),
      muted: color("muted"),
      rule: color("rule"),
      paper: color("paper"),
      accent: color("accent"),
      shade: color("shade"),
      busy: color("busy"),
    };
    this.painter.setLook({ labels, colors, background: color("paper"), faded: color("faded") });
    this.invalidate();
  }

  setSearch(search: Search | null): void {
    this.search = search;
    this.invalidate();
  }

  setSelection(row: number | null, range: Stretch | null): void {
    this.selected = row;
    this.range = range;
    this.invalidate();
  }

  setCollapsed(collapsed: ReadonlySet<string>): void {
    this.rows = layOut(this.data, collapsed);
    this.names.replaceChildren(
      ...this.rows.names.map((band) => {
        const sign = band.canCollapse ? (band.isCollapsed ? "\u25b8" : "\u25be") : "";
        const made = element(
          "button",
          {
            class: `at-lane at-${band.kind}`,
            title: shortened(band.text, 300),
            attributes: {
              type: "button",
              ...(band.canCollapse ? { "aria-expanded": String(!band.isCollapsed) } : {}),
            },
            onClick: () => band.canCollapse && this.actions.toggle(band.key),
          },
          element("span", { class: "at-sign" }, sign),
          element("span", { class: "at-text" }, shortened(band.text, 120)),
          element("span", { class: "at-muted" }, band.detail),
        );
        made.style.top = `${band.top}px`;
        made.style.height = `${band.height}px`;
        return made;
      }),
    );
    this.lanes.style.height = `${this.rows.height + 12}px`;
    this.invalidate();
  }

  /** Say something for a while at the bottom of the chart. */
  say(text: string): void {
    this.toast.textContent = text;
    this.toast.classList.add("at-shown");
    window.setTimeout(() => this.toast.classList.remove("at-shown"), 6000);
  }

  /** Bring a span into view: its lane, its time, and wide enough to see. */
  bringIntoView(row: number): void {
    const { start, stop } = this.data;
    const track = this.data.trackOf(row);
    const key = laneKey(track.lane);
    if (!this.rows.tracks.some((band) => band.track === track)) {
      const group = `group ${this.data.description.lanes[track.lane].group}`;
      const isHidden = this.rows.names.some((band) => band.key === group && band.isCollapsed);
      this.actions.toggle(isHidden ? group : key);
    }
    const length = stop[row] - start[row];
    const isVisible = start[row] >= this.viewport.from && stop[row] <= this.viewport.to;
    const isWide = (length / this.viewport.length) * this.width >= 3;
    if (!isVisible || !isWide) {
      const shown = isWide ? this.viewport.length : Math.max(length * 40, 2000);
      const middle = (start[row] + stop[row]) / 2;
      this.viewport.show(middle - shown / 2, middle + shown / 2);
      this.actions.changed();
    }
    const band = this.rows.tracks.find((one) => one.track === track);
    if (band) {
      const top = this.scroll.scrollTop;
      if (band.top < top || band.top + band.height > top + this.height) {
        this.scroll.scrollTop = band.top - this.height / 2;
      }
    }
    this.invalidate();
  }

  /** Draw at the next frame. */
  invalidate(): void {
    if (!this.frame) this.frame = requestAnimationFrame((time) => this.draw(time));
  }

  private resize(): void {
    const scale = window.devicePixelRatio || 1;
    const nameWidth = this.names.offsetWidth;
    this.width = Math.max(this.scroll.clientWidth - nameWidth, 40);
    this.height = Math.max(this.scroll.clientHeight, 40);
    fitCanvas(this.canvas, this.width, this.height, scale);
    fitCanvas(this.top, this.width, this.ruler.height, scale);
    this.invalidate();
  }

  private draw(time: number): void {
    this.frame = 0;
    this.fly(time);
    if (!this.ink) return;
    const scale = window.devicePixelRatio || 1;
    const context = this.context;
    const ink = this.ink;
    this.topContext.setTransform(scale, 0, 0, scale, 0, 0);
    this.ruler.paint(this.topContext, this.viewport, this.width, this.theme, ink);
    const scroll = this.scroll.scrollTop;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.paintGrid(context, scale, scroll);
    const bands = this.rows.tracks.filter(
      (band) => band.top + band.height >= scroll && band.top <= scroll + this.height,
    );
    this.painter.paint(
      context,
      bands,
      this.viewport,
      this.canvas.width,
      scroll,
      scale,
      this.search,
    );
    context.setTransform(scale, 0, 0, scale, 0, 0);
    this.paintSelection(context, bands, scroll);
  }

  /** Lines at ticks, between groups, and at the boundaries of steps. */
  private paintGrid(context: CanvasRenderingContext2D, scale: number, scroll: number): void {
    const ink = this.ink!;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = ink.shade;
    for (const band of this.rows.names) {
      if (band.kind === "group")
        context.fillRect(0, band.top - scroll, this.width, band.height - 2);
    }
    context.fillStyle = ink.rule;
    context.globalAlpha = 0.6;
    for (const tick of ticks(this.viewport, this.width).times) {
      context.fillRect(Math.round(this.x(tick)), 0, 1, this.height);
    }
    const steps = [...this.ruler.visible(this.viewport)];
    context.globalAlpha = 0.5;
    if (steps.length <= this.width / 12) {
      context.fillStyle = ink.accent;
      for (const step of steps) context.fillRect(Math.round(this.x(step.start)), 0, 1, this.height);
    }
    context.globalAlpha = 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  private paintSelection(
    context: CanvasRenderingContext2D,
    bands: readonly TrackBand[],
    scroll: number,
  ): void {
    const ink = this.ink!;
    if (this.range) {
      const left = this.x(this.range.from);
      const right = this.x(this.range.to);
      context.fillStyle = ink.paper;
      context.globalAlpha = 0.55;
      context.fillRect(0, 0, Math.max(left, 0), this.height);
      context.fillRect(right, 0, Math.max(this.width - right, 0), this.height);
      context.globalAlpha = 1;
      context.fillStyle = ink.accent;
      context.fillRect(left - 0.5, 0, 1, this.height);
      context.fillRect(right - 0.5, 0, 1, this.height);
      this.topContext.fillStyle = ink.accent;
      const top = OVERVIEW_HEIGHT + AXIS_HEIGHT - 3;
      this.topContext.fillRect(left, top, Math.max(right - left, 1), 3);
    }
    if (this.selected === null) return;
    const track = this.data.trackOf(this.selected);
    const band = bands.find((one) => one.track === track);
    if (!band) return;
    const left = this.x(this.data.start[this.selected]);
    const wide = Math.max(this.x(this.data.stop[this.selected]) - left, 2);
    context.lineWidth = 2;
    context.strokeStyle = ink.ink;
    context.strokeRect(left - 1, band.top - scroll - 1, wide + 2, band.height + 1);
  }

  private x(time: number): number {
    return ((time - this.viewport.from) / this.viewport.length) * this.width;
  }

  private time(x: number): number {
    return this.viewport.from + (x / this.width) * this.viewport.length;
  }

  /** Move while keys are held, as fast on a slow machine as on a fast one. */
  private fly(time: number): void {
    // The time of a frame may lie before the key that asked for it.
    const seconds = Math.min(Math.max((time - this.lastTime) / 1000, 0), 0.05);
    this.lastTime = time;
    if (!this.pressed.size) return;
    this.glide(seconds);
    this.invalidate();
  }

  /** Move as the keys that are held do in so much time. */
  private glide(seconds: number): void {
    const zoom = Number(this.pressed.has("KeyW")) - Number(this.pressed.has("KeyS"));
    const pan = Number(this.pressed.has("KeyD")) - Number(this.pressed.has("KeyA"));
    if (zoom) this.viewport.zoom(Math.exp(zoom * seconds * 4), this.pointerShare());
    if (pan) this.viewport.pan(pan * seconds * 1.2);
    if (zoom || pan) this.actions.changed();
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { target } = event;
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
    if (!["KeyW", "KeyA", "KeyS", "KeyD"].includes(event.code)) return;
    if (!this.pressed.size) this.lastTime = performance.now();
    this.pressed.add(event.code);
    // A key that is let go before the next frame moves too.
    if (!event.repeat) this.glide(0.06);
    this.invalidate();
  }

  private lastX: number | null = null;

  private pointerShare(): number {
    return this.lastX === null ? 0.5 : this.lastX / this.width;
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? this.height : 1;
    const across = event.deltaX * unit;
    const down = event.deltaY * unit;
    if (event.shiftKey || Math.abs(across) > Math.abs(down)) {
      this.viewport.pan((across || down) / this.width);
    } else {
      // A pinch on a touch pad comes as a wheel with Ctrl, in smaller amounts.
      const factor = Math.exp(-down * (event.ctrlKey ? 0.012 : 0.0022));
      this.viewport.zoom(factor, event.offsetX / this.width);
    }
    this.actions.changed();
    this.invalidate();
  }

  private down(event: PointerEvent): void {
    const surface = event.currentTarget as HTMLElement;
    surface.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event);
    this.moved = 0;
    this.hideTip();
    if (surface === this.top && event.offsetY < OVERVIEW_HEIGHT) {
      this.drag = "overview";
      this.center(event.offsetX);
    } else if (event.shiftKey || surface === this.top) this.drag = "range";
    else this.drag = "pan";
  }

  private move(event: PointerEvent): void {
    const surface = event.currentTarget as HTMLElement;
    this.lastX = event.offsetX;
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.hover(event, surface);
      return;
    }
    if (this.pointers.size === 2) {
      this.pinch(event);
      return;
    }
    this.moved +=
      Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (this.drag === "overview") this.center(event.offsetX);
    else if (this.drag === "range") {
      if (this.moved >= CLICK_DISTANCE) this.dragRange(event);
      // The range begins where the button went down.
      return;
    } else if (this.moved >= CLICK_DISTANCE) {
      this.viewport.pan((before.clientX - event.clientX) / this.width);
      this.scroll.scrollTop += before.clientY - event.clientY;
      surface.classList.add("at-dragged");
    }
    this.pointers.set(event.pointerId, event);
    this.actions.changed();
    this.invalidate();
  }

  private dragRange(event: PointerEvent): void {
    const begin = this.pointers.get(event.pointerId)!;
    const left = (event.currentTarget as HTMLElement).getBoundingClientRect().left;
    const times = [begin, event].map((one) => this.time(one.clientX - left));
    const from = Math.max(Math.min(...times), 0);
    const to = Math.min(Math.max(...times), this.data.end);
    if (to > from) this.actions.range(from, to);
  }

  private pinch(event: PointerEvent): void {
    const left = this.canvas.getBoundingClientRect().left;
    const before = [...this.pointers.values()].map((one) => one.clientX - left);
    this.pointers.set(event.pointerId, event);
    const after = [...this.pointers.values()].map((one) => one.clientX - left);
    const spread = (pair: number[]): number => Math.max(Math.abs(pair[0] - pair[1]), 8);
    const middle = (pair: number[]): number => (pair[0] + pair[1]) / 2;
    this.moved = CLICK_DISTANCE;
    this.viewport.zoom(spread(after) / spread(before), middle(before) / this.width);
    this.viewport.pan((middle(before) - middle(after)) / this.width);
    this.actions.changed();
    this.invalidate();
  }

  private up(event: PointerEvent): void {
    const wasDown = this.pointers.delete(event.pointerId);
    (event.currentTarget as HTMLElement).classList.remove("at-dragged");
    if (!wasDown || event.type === "pointercancel" || this.drag === "overview") return;
    if (this.moved < CLICK_DISTANCE && !this.pointers.size) {
      this.canvas.focus({ preventScroll: true });
      this.actions.hit(this.at(event), false);
    }
  }

  private doubleClick(event: MouseEvent): void {
    this.actions.hit(this.at(event), true);
  }

  private center(x: number): void {
    const time = (x / this.width) * this.data.end;
    const half = this.viewport.length / 2;
    this.viewport.show(time - half, time + half);
    this.actions.changed();
    this.invalidate();
  }

  /** What is under the pointer; a narrow span is hit within two pixels. */
  private at(event: MouseEvent): Hit {
    const time = this.time(event.offsetX);
    if (event.currentTarget === this.top) {
      if (event.offsetY < OVERVIEW_HEIGHT + AXIS_HEIGHT) return { kind: "nothing" };
      for (const step of this.ruler.visible(this.viewport)) {
        if (step.start <= time && time < step.end) return { kind: "step", step };
      }
      return { kind: "nothing" };
    }
    const y = event.offsetY + this.scroll.scrollTop;
    const band = this.rows.tracks.find((one) => y >= one.top && y < one.top + one.height);
    if (!band) return { kind: "nothing" };
    const slack = (this.viewport.length / this.width) * 2;
    const { first, end } = band.track;
    const low = this.detail.firstEndingAfter(time - slack, first, end);
    if (low >= end || this.data.start[low] > time + slack) return { kind: "nothing" };
    const high = Math.max(this.detail.firstStartingFrom(time + slack, low, end), low + 1);
    const exact = this.detail.firstEndingAfter(time, low, high);
    if (exact < high && this.data.start[exact] <= time) return { kind: "span", row: exact };
    return { kind: "span", row: this.detail.longest(low, high) };
  }

  private hover(event: PointerEvent, surface: HTMLElement): void {
    const hit = this.at(event);
    surface.classList.toggle("at-pointing", hit.kind !== "nothing");
    if (hit.kind === "nothing") {
      this.hideTip();
      return;
    }
    if (hit.kind === "step") {
      const { step } = hit;
      const lines = [`${step.phase ?? "step"} ${step.step}`, duration(step.end - step.start)];
      this.tip.replaceChildren(...lines.map((one) => element("div", {}, printable(one))));
    } else {
      const { name, op, start, stop } = this.data;
      const word = op.codes[hit.row] < 0 ? "" : op.words[op.codes[hit.row]];
      const title = name.words[name.codes[hit.row]] ?? "(no name)";
      this.tip.replaceChildren(
        element("div", { class: "at-tip-name" }, shortened(title, 180)),
        element(
          "div",
          {},
          [duration(stop[hit.row] - start[hit.row]), shortened(word, 80)]
            .filter(Boolean)
            .join("  \u00b7  "),
        ),
      );
    }
    const box = this.root.getBoundingClientRect();
    this.tip.hidden = false;
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    this.tip.style.left = `${Math.min(x + 14, Math.max(box.width - this.tip.offsetWidth - 8, 8))}px`;
    const isLow = y + this.tip.offsetHeight + 24 > box.height;
    this.tip.style.top = `${isLow ? y - this.tip.offsetHeight - 10 : y + 16}px`;
  }

  private hideTip(): void {
    this.tip.hidden = true;
  }
}

function fitCanvas(canvas: HTMLCanvasElement, width: number, height: number, scale: number): void {
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.max(Math.round(width * scale), 1);
  canvas.height = Math.max(Math.round(height * scale), 1);
}
