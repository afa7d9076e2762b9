// The top of the chart: an overview of the whole trace, the axis, and the band of steps.

import { inkOn, phaseColor, type Theme } from "./colors";
import type { StepEntry, TimelineData } from "./data";
import type { Detail } from "./detail";
import { printable, tickLabel, tickStep } from "./text";
import { unionOf } from "./union";
import type { Viewport } from "./viewport";

export const OVERVIEW_HEIGHT = 36;
export const AXIS_HEIGHT = 22;
export const STEPS_HEIGHT = 20;
const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/** Colors of lines and text. */
export interface Ink {
  readonly ink: string;
  readonly muted: string;
  readonly rule: string;
  readonly paper: string;
  readonly accent: string;
  readonly shade: string;
  readonly busy: string;
}

/** Times of ticks that are visible, and the step between them. */
export function ticks(viewport: Viewport, width: number): { step: number; times: number[] } {
  const step = tickStep(viewport.length, Math.floor(width / 110));
  const times: number[] = [];
  for (let time = Math.ceil(viewport.from / step) * step; time <= viewport.to; time += step) {
    times.push(time);
  }
  return { step, times };
}

export class Ruler {
  private overview: Float32Array | null = null;

  constructor(
    private readonly data: TimelineData,
    private readonly detail: Detail,
  ) {}

  get height(): number {
    const steps = this.data.description.steps.length ? STEPS_HEIGHT : 0;
    return OVERVIEW_HEIGHT + AXIS_HEIGHT + steps;
  }

  paint(
    context: CanvasRenderingContext2D,
    viewport: Viewport,
    width: number,
    theme: Theme,
    ink: Ink,
  ): void {
    context.clearRect(0, 0, width, this.height);
    this.paintOverview(context, viewport, width, ink);
    this.paintAxis(context, viewport, width, ink);
    if (this.data.description.steps.length) this.paintSteps(context, viewport, width, theme, ink);
  }

  /** How busy the devices are, over the whole trace; threads where there is no device. */
  private busyShares(width: number): Float32Array {
    if (this.overview?.length === width) return this.overview;
    const lanes = this.data.description.lanes;
    const hasDevice = lanes.some((lane) => lane.kind === "stream");
    const shown = lanes.flatMap((lane, index) =>
      !hasDevice || lane.kind === "stream" ? [index] : [],
    );
    const groups = new Set(shown.map((index) => lanes[index].group)).size;
    const shares = new Float32Array(width);
    const each = this.data.end / width;
    for (const index of shown) {
      const tracks = this.data.tracks.filter((track) => track.lane === index);
      unionOf(this.detail, tracks, 0, this.data.end, (start, stop) => {
        const last = Math.min(Math.floor(stop / each), width - 1);
        for (let x = Math.floor(start / each); x <= last; x++) {
          const time = Math.min(stop, (x + 1) * each) - Math.max(start, x * each);
          shares[x] += Math.max(time, 0) / each / groups;
        }
      });
    }
    this.overview = shares;
    return shares;
  }

  private paintOverview(
    context: CanvasRenderingContext2D,
    viewport: Viewport,
    width: number,
    ink: Ink,
  ): void {
    const height = OVERVIEW_HEIGHT - 6;
    const shares = this.busyShares(Math.max(Math.floor(width), 1));
    context.fillStyle = ink.shade;
    context.fillRect(0, 3, width, height);
    context.fillStyle = ink.busy;
    shares.forEach((share, x) => {
      const tall = Math.min(share, 1) * (height - 4);
      if (tall > 0) context.fillRect(x, 3 + height - Math.max(tall, 0.5), 1, Math.max(tall, 0.5));
    });
    const left = (viewport.from / this.data.end) * width;
    const right = (viewport.to / this.data.end) * width;
    context.globalAlpha = 0.72;
    context.fillStyle = ink.paper;
    context.fillRect(0, 3, Math.max(left, 0), height);
    context.fillRect(right, 3, Math.max(width - right, 0), height);
    context.globalAlpha = 1;
    context.strokeStyle = ink.accent;
    context.lineWidth = 1.5;
    const low = Math.max(left, 0) + 0.75;
    context.strokeRect(low, 3.75, Math.max(Math.min(right, width) - low - 0.75, 2), height - 1.5);
  }

  private paintAxis(
    context: CanvasRenderingContext2D,
    viewport: Viewport,
    width: number,
    ink: Ink,
  ): void {
    const { step, times } = ticks(viewport, width);
    context.font = `11px ${SANS}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const base = OVERVIEW_HEIGHT + AXIS_HEIGHT;
    context.fillStyle = ink.rule;
    context.fillRect(0, base - 1, width, 1);
    for (const time of times) {
      const x = Math.round(((time - viewport.from) / viewport.length) * width);
      context.fillStyle = ink.rule;
      context.fillRect(x, base - 8, 1, 8);
      context.fillStyle = ink.muted;
      context.fillText(tickLabel(time, step), x + 5, base - AXIS_HEIGHT / 2);
    }
  }

  private paintSteps(
    context: CanvasRenderingContext2D,
    viewport: Viewport,
    width: number,
    theme: Theme,
    ink: Ink,
  ): void {
    const top = OVERVIEW_HEIGHT + AXIS_HEIGHT + 2;
    const height = STEPS_HEIGHT - 4;
    context.font = `500 11px ${SANS}`;
    let drawn = -1;
    context.globalAlpha = 0.85;
    const named: [string, number, string][] = [];
    for (const step of this.visible(viewport)) {
      const left = ((step.start - viewport.from) / viewport.length) * width;
      const right = ((step.end - viewport.from) / viewport.length) * width;
      // Of many steps in a pixel one is enough.
      if (right < drawn) continue;
      const low = Math.max(left, 0);
      const wide = Math.max(Math.min(right, width) - low - (right - left > 3 ? 1 : 0), 0.6);
      const color = phaseColor(step.phase, theme);
      context.fillStyle = color;
      context.fillRect(low, top, wide, height);
      drawn = Math.ceil(right) === Math.ceil(left) ? Math.ceil(right) : right;
      if (wide > 16) named.push([stepText(step, wide), low, inkOn(color)]);
    }
    context.globalAlpha = 1;
    for (const [text, low, color] of named) {
      context.fillStyle = color;
      context.fillText(text, low + 6, top + height / 2 + 0.5);
    }
    context.fillStyle = ink.rule;
    context.fillRect(0, top + height + 1, width, 1);
  }

  /** Steps that overlap what is visible; they are in the order of their starts. */
  *visible(viewport: Viewport): Generator<StepEntry> {
    for (const step of this.data.description.steps) {
      if (step.start > viewport.to) return;
      if (step.end >= viewport.from) yield step;
    }
  }
}

function stepText(step: StepEntry, width: number): string {
  const long = printable(
    [`${step.phase ?? "step"} ${step.step}`, step.batch === null ? "" : `batch ${step.batch}`]
      .filter(Boolean)
      .join(", "),
  );
  const candidates = [long, `${printable(step.phase ?? "step")} ${step.step}`, String(step.step)];
  return candidates.find((text) => text.length * 6.2 + 10 < width) ?? "";
}
