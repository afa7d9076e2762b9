// Hands on the map: drag, wheel, pinch, hover, click, double click.

import { type Camera, zoomAt } from "./camera";
import type { Renderer } from "./renderer";

export interface Answers {
  readonly hover: (slot: number) => void;
  readonly click: (slot: number) => void;
  readonly doubleClick: (slot: number) => void;
}

/** Pixels that a hand may shake within a click. */
const SHAKE = 4;
/** Zoom of a wheel's notch of 100 pixels, of a button and of a double click. */
const WHEEL = 1.25;
export const STEP = 1.6;

/** Listen until the signal ends. */
export function listen(
  place: HTMLElement,
  renderer: Renderer,
  answers: Answers,
  signal: AbortSignal,
): void {
  const fingers = new Map<number, { x: number; y: number }>();
  let moved = 0;

  function pointOf(event: MouseEvent): { x: number; y: number } {
    const frame = place.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }

  function span(): { x: number; y: number; length: number } {
    const [one, other] = [...fingers.values()] as [
      { x: number; y: number },
      { x: number; y: number },
    ];
    return {
      x: (one.x + other.x) / 2,
      y: (one.y + other.y) / 2,
      length: Math.max(Math.hypot(one.x - other.x, one.y - other.y), 1),
    };
  }

  function down(event: PointerEvent): void {
    if (event.button !== 0) return;
    if (fingers.size === 0) moved = 0;
    fingers.set(event.pointerId, pointOf(event));
    place.setPointerCapture(event.pointerId);
  }

  function move(event: PointerEvent): void {
    const point = pointOf(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      answers.hover(renderer.nodeAt(point.x, point.y));
      return;
    }
    const old = fingers.size === 2 ? span() : null;
    fingers.set(event.pointerId, point);
    moved += Math.hypot(point.x - before.x, point.y - before.y);
    if (moved <= SHAKE) return;
    const { camera } = renderer;
    if (old) {
      const now = span();
      const zoomed = zoomAt(camera, now.length / old.length, old.x, old.y);
      renderer.move({ ...zoomed, x: zoomed.x + now.x - old.x, y: zoomed.y + now.y - old.y });
    } else if (fingers.size === 1) {
      renderer.move({
        ...camera,
        x: camera.x + point.x - before.x,
        y: camera.y + point.y - before.y,
      });
    }
  }

  function up(event: PointerEvent): void {
    if (!fingers.delete(event.pointerId) || moved > SHAKE || fingers.size > 0) return;
    const point = pointOf(event);
    const slot = renderer.nodeAt(point.x, point.y);
    if (slot >= 0) answers.click(slot);
  }

  function wheel(event: WheelEvent): void {
    event.preventDefault();
    const point = pointOf(event);
    // Browsers give lines instead of pixels for some wheels.
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 33 : 1);
    renderer.move(zoomAt(renderer.camera, WHEEL ** (-pixels / 100), point.x, point.y));
  }

  function doubled(event: MouseEvent): void {
    const point = pointOf(event);
    const slot = renderer.nodeAt(point.x, point.y);
    if (slot >= 0) answers.doubleClick(slot);
    else renderer.move(zoomAt(renderer.camera, STEP, point.x, point.y));
  }

  place.addEventListener("pointerdown", down, { signal });
  place.addEventListener("pointermove", move, { signal });
  place.addEventListener("pointerup", up, { signal });
  place.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId), { signal });
  place.addEventListener("pointerleave", () => answers.hover(-1), { signal });
  place.addEventListener("dblclick", doubled, { signal });
  place.addEventListener("wheel", wheel, { signal, passive: false });
}

/** Move to a camera within some milliseconds; at once where people asked for less motion. */
export function glide(renderer: Renderer, to: Camera, duration = 200): void {
  const from = renderer.camera;
  const start = performance.now();
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  function step(now: number): void {
    const part = isStill ? 1 : Math.min((now - start) / duration, 1);
    const eased = 1 - (1 - part) ** 3;
    const mix = (one: number, other: number) => one + (other - one) * eased;
    renderer.move({ zoom: mix(from.zoom, to.zoom), x: mix(from.x, to.x), y: mix(from.y, to.y) });
    if (part < 1) requestAnimationFrame(step);
  }
  requestAnimationFrame(step);
}
