// The stretch of time that is visible, and how zooming and panning change it.

const SHORTEST = 20;

export class Viewport {
  from = 0;
  to: number;

  constructor(readonly end: number) {
    this.to = end;
  }

  get length(): number {
    return this.to - this.from;
  }

  /** Show this stretch, kept within the trace and no shorter than a few nanoseconds. */
  show(from: number, to: number): void {
    const length = this.bounded(to - from);
    // A tenth of what is visible may lie beyond the ends, so that edges are seen as such.
    const lowest = -length * 0.1;
    const highest = this.end + length * 0.1 - length;
    const wanted = (from + to - length) / 2;
    this.from =
      length >= this.end ? (this.end - length) / 2 : Math.min(Math.max(wanted, lowest), highest);
    this.to = this.from + length;
  }

  private bounded(length: number): number {
    return Math.min(Math.max(length, SHORTEST), this.end * 1.1 + SHORTEST);
  }

  /** Zoom by a factor, above 1 in, about a point given as a share of the width. */
  zoom(factor: number, about: number): void {
    const length = this.bounded(this.length / factor);
    const anchor = this.from + this.length * about;
    this.show(anchor - length * about, anchor + length * (1 - about));
  }

  /** Move by a share of what is visible. */
  pan(share: number): void {
    const by = this.length * share;
    this.show(this.from + by, this.to + by);
  }

  fitAll(): void {
    const margin = this.end * 0.01;
    this.show(-margin, this.end + margin);
  }

  /** Show a stretch with some room around it. */
  fit(from: number, to: number): void {
    const margin = Math.max((to - from) * 0.05, 1);
    this.show(from - margin, to + margin);
  }
}
