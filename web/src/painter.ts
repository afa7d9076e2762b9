// Paints tracks: one line of pixels a track, stretched to its height, and names over wide spans.

import { inkOn, pixelShades, SHADES } from "./colors";
import type { TextColumn, TimelineData } from "./data";
import { type Detail, paintTrack, type RowSink } from "./detail";
import type { TrackBand } from "./rows";
import type { Search } from "./search";
import { printable } from "./text";
import type { Viewport } from "./viewport";

const NAMED_WIDTH = 34;
const EDGE_WIDTH = 5;
const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** What the spans look like. */
export interface Look {
  readonly labels: TextColumn;
  /** Colors of the words of `labels`. */
  readonly colors: readonly string[];
  readonly background: string;
  readonly faded: string;
}

interface Named {
  readonly row: number;
  readonly from: number;
  readonly to: number;
}

export class Painter implements RowSink {
  private readonly line = document.createElement("canvas");
  private readonly lineContext: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private at = 0;
  private shades: Uint32Array = new Uint32Array(0);
  private faded: Uint32Array = new Uint32Array(0);
  private named: Named[] = [];
  private search: Search | null = null;
  private look: Look | null = null;
  private scale = 1;
  private readonly clean = new Map<string, string>();

  constructor(
    private readonly data: TimelineData,
    private readonly detail: Detail,
  ) {
    const context = this.line.getContext("2d", { willReadFrequently: true });
    if (!context) throw new Error("this browser cannot draw on a canvas");
    this.lineContext = context;
  }

  setLook(look: Look): void {
    this.look = look;
    this.shades = pixelShades(look.colors, look.background);
    this.faded = pixelShades([look.faded], look.background);
  }

  /** Paint bands to a canvas `width` pixels wide; `scroll` is the top of what is visible. */
  paint(
    context: CanvasRenderingContext2D,
    bands: readonly TrackBand[],
    viewport: Viewport,
    width: number,
    scroll: number,
    scale: number,
    search: Search | null,
  ): void {
    if (!bands.length || !this.look || width < 1) return;
    this.scale = scale;
    this.search = search;
    this.size(width, bands.length);
    this.pixels.fill(0);
    const perPixel = viewport.length / width;
    const names: Named[][] = [];
    bands.forEach((band, index) => {
      this.at = index * width;
      this.named = [];
      const { first, end } = band.track;
      paintTrack(this.detail, first, end, viewport.from, perPixel, width, this);
      names.push(this.named);
    });
    this.lineContext.putImageData(this.image!, 0, 0);
    context.imageSmoothingEnabled = false;
    bands.forEach((band, index) => {
      const top = Math.round((band.top - scroll) * scale);
      const height = Math.max(Math.round(band.height * scale) - scale, 1);
      context.drawImage(this.line, 0, index, width, 1, 0, top, width, height);
    });
    bands.forEach((band, index) => {
      if (band.height >= 13) this.paintNames(context, band, names[index], scroll);
    });
  }

  private size(width: number, height: number): void {
    if (this.image?.width === width && this.image.height === height) return;
    this.line.width = width;
    this.line.height = height;
    this.image = this.lineContext.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  pixel(x: number, coverage: number, row: number, low: number, high: number): void {
    const shade = Math.max(Math.ceil(coverage * SHADES), 1);
    this.pixels[this.at + x] =
      this.search && !this.search.any(low, high)
        ? this.faded[shade]
        : this.shades[this.look!.labels.codes[row] * (SHADES + 1) + shade];
  }

  run(from: number, to: number, row: number): void {
    const isFaded = this.search !== null && !this.search.has(row);
    const base = this.look!.labels.codes[row] * (SHADES + 1);
    const table = isFaded ? this.faded : this.shades;
    const full = (isFaded ? 0 : base) + SHADES;
    this.pixels.fill(table[full], this.at + from, this.at + to);
    const wide = to - from;
    // A lighter first pixel separates neighbors of one color.
    if (wide >= EDGE_WIDTH) this.pixels[this.at + from] = table[full - (SHADES >> 1)];
    if (wide >= NAMED_WIDTH * this.scale && !isFaded) this.named.push({ row, from, to });
  }

  private paintNames(
    context: CanvasRenderingContext2D,
    band: TrackBand,
    named: readonly Named[],
    scroll: number,
  ): void {
    const { scale, look } = this;
    context.font = FONT.replace("11px", `${11 * scale}px`);
    context.textBaseline = "middle";
    const letter = context.measureText("0").width;
    const middle = (band.top - scroll + band.height / 2) * scale;
    for (const { row, from, to } of named) {
      const room = Math.floor((to - from - 8 * scale) / letter);
      if (room < 3) continue;
      const text = this.spanName(row);
      const shown = text.length <= room ? text : `${text.slice(0, room - 1)}\u2026`;
      context.fillStyle = inkOn(look!.colors[look!.labels.codes[row]]);
      context.fillText(shown, from + 5 * scale, middle);
    }
  }

  /** What is written on a span: its operation, else its name without return type. */
  private spanName(row: number): string {
    const op = this.data.op.codes[row];
    const word =
      op >= 0 ? this.data.op.words[op] : (this.data.name.words[this.data.name.codes[row]] ?? "");
    let text = this.clean.get(word);
    if (text === undefined) {
      text = printable(word.slice(0, 200)).replace(/^void /, "");
      this.clean.set(word, text);
    }
    return text;
  }
}
