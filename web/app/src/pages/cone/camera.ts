// Where the map's places are on the screen. At zoom 1 the whole map fills its frame.

export interface Frame {
  readonly width: number;
  readonly height: number;
}

export interface Camera {
  readonly zoom: number;
  /** Pixels by which the zoomed map is moved. */
  readonly x: number;
  readonly y: number;
}

/** Screen = place * scale + shift, in pixels of the style sheet. */
export interface Transform {
  readonly scaleX: number;
  readonly scaleY: number;
  readonly shiftX: number;
  readonly shiftY: number;
}

export const WHOLE: Camera = { zoom: 1, x: 0, y: 0 };
const LEAST_ZOOM = 1 / 3;
const MOST_ZOOM = 100;
/** Pixels for the names of layers at the left, for labels at the right, and for buttons and legend. */
const LEFT = 110;
const RIGHT = 150;
const ABOVE = 34;
const BELOW = 52;
/** A phone has less room for margins. */
const MOST_OF_WIDTH = 0.25;
/** The smallest nodes have a radius of two pixels: their diameter takes 90 % of the room. */
const OF_ROOM = 0.225;
const LEAST_GROWTH = 0.5;

export function transformOf(map: Frame, frame: Frame, camera: Camera): Transform {
  const left = leftMargin(frame);
  const right = Math.min(RIGHT, MOST_OF_WIDTH * frame.width);
  const scaleX = Math.max(frame.width - left - right, 1) / map.width;
  const scaleY = Math.max(frame.height - ABOVE - BELOW, 1) / map.height;
  return {
    scaleX: scaleX * camera.zoom,
    scaleY: scaleY * camera.zoom,
    shiftX: left * camera.zoom + camera.x,
    shiftY: ABOVE * camera.zoom + camera.y,
  };
}

/** Pixels at the left that the names of layers take. */
export function leftMargin(frame: Frame): number {
  return Math.min(LEFT, MOST_OF_WIDTH * frame.width);
}

/** Zoom so that what is at a point of the screen stays there. */
export function zoomAt(camera: Camera, factor: number, x: number, y: number): Camera {
  const zoom = Math.min(Math.max(camera.zoom * factor, LEAST_ZOOM), MOST_ZOOM);
  const real = zoom / camera.zoom;
  return { zoom, x: x - (x - camera.x) * real, y: y - (y - camera.y) * real };
}

/** Nodes grow with the zoom, more slowly than the room between them, and shrink where it is scarce. */
export function growth(transform: Transform, zoom: number): number {
  const room = Math.min(transform.scaleX, transform.scaleY);
  return Math.min(Math.sqrt(zoom), 2.5, Math.max(room * OF_ROOM, LEAST_GROWTH));
}

/** The slot of the node at a point of the screen, or -1; a few pixels beside it are near enough. */
export function nodeAt(
  places: {
    readonly x: ArrayLike<number>;
    readonly y: ArrayLike<number>;
    readonly radius: ArrayLike<number>;
  },
  transform: Transform,
  zoom: number,
  x: number,
  y: number,
): number {
  let best = -1;
  let nearest = 4;
  const grown = growth(transform, zoom);
  for (let slot = 0; slot < places.x.length; slot++) {
    const across = places.x[slot]! * transform.scaleX + transform.shiftX - x;
    const down = places.y[slot]! * transform.scaleY + transform.shiftY - y;
    const outside = Math.hypot(across, down) - places.radius[slot]! * grown;
    if (outside < nearest) {
      nearest = outside;
      best = slot;
    }
  }
  return best;
}
