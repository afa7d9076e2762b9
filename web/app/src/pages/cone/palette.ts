// Colors of the map. WebGL needs them as numbers, so they are read from the styles of the page.

export interface Palette {
  readonly ink: string;
  readonly raised: string;
  readonly target: string;
  readonly computed: string;
  readonly given: string;
  readonly constant: string;
  readonly missing: string;
  readonly incomplete: string;
  readonly edge: string;
  readonly strong: string;
  readonly near: string;
  readonly path: string;
  readonly faint: string;
}

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  // A canvas writes every opaque color as #rrggbb, however the style sheet was shortened.
  const canvas = document.createElement("canvas").getContext("2d")!;
  function color(name: string): string {
    canvas.fillStyle = style.getPropertyValue(name).trim();
    return canvas.fillStyle as string;
  }
  return {
    ink: color("--ink"),
    raised: color("--raised"),
    target: color("--observed"),
    computed: color("--series-8"),
    given: color("--accent"),
    constant: color("--rule-strong"),
    missing: color("--missing"),
    incomplete: color("--warn"),
    edge: color("--rule"),
    strong: color("--rule-strong"),
    near: color("--muted"),
    path: color("--observed"),
    faint: color("--rule"),
  };
}

/** Call when light becomes dark or the other way round. */
export function watchTheme(changed: () => void): () => void {
  const watcher = new MutationObserver(changed);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  return () => watcher.disconnect();
}

/** Red, green, blue and opacity of a color of the palette. */
export function bytesOf(color: string): readonly [number, number, number, number] {
  const whole = Number.parseInt(color.slice(1), 16);
  return [(whole >> 16) & 255, (whole >> 8) & 255, whole & 255, 255];
}
