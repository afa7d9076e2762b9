// Draws a scene with WebGL: one call for all edges, one for all nodes, names on a canvas above.
//
// A frame costs the main thread the names and a few uniforms; the arrays go to the GPU when the
// scene or what is marked changes. See docs/design/ui.md for why this is not a graph library.

import { type Camera, type Frame, growth, nodeAt, transformOf, WHOLE } from "./camera";
import { bySize, chooseLabels, FONT_SIZE } from "./labels";
import { bytesOf, type Palette } from "./palette";
import { compile, EDGES, NODES, type Program } from "./programs";
import { MOST_WITH_ALL_EDGES, type Scene } from "./scene";

/** Slots that stand out. */
export interface Marks {
  readonly hovered: number;
  readonly selected: number;
  readonly path: readonly number[];
}

/** With more neighbors than this, those of a selected node are not named first. */
const MOST_NAMED = 12;
const [NEAR_WIDTH, PATH_WIDTH] = [1.2, 2.5];

export class Renderer {
  camera: Camera = WHOLE;
  /** Called after every frame, for what is drawn beside the canvas. */
  afterFrame: () => void = () => {};
  private scene: Scene | null = null;
  private order: Int32Array = new Int32Array(0);
  private marks: Marks = { hovered: -1, selected: -1, path: [] };
  private named: number[] = [];
  private others: Int32Array = new Int32Array(0);
  private frame: Frame = { width: 1, height: 1 };
  private pending = 0;
  private readonly surface = document.createElement("canvas");
  private readonly paper = document.createElement("canvas");
  private readonly gl: WebGL2RenderingContext;
  private readonly nodes: Program;
  private readonly edges: Program;
  private readonly writing: CanvasRenderingContext2D;
  private readonly watcher: ResizeObserver;
  private readonly font: string;

  constructor(
    private readonly place: HTMLElement,
    private palette: Palette,
  ) {
    const gl = this.surface.getContext("webgl2", { antialias: true, alpha: true });
    if (!gl) throw new Error("this browser offers no WebGL 2");
    this.gl = gl;
    this.nodes = compile(gl, NODES);
    this.edges = compile(gl, EDGES);
    this.writing = this.paper.getContext("2d")!;
    this.font = getComputedStyle(document.body).fontFamily;
    place.append(this.surface, this.paper);
    this.resize();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(place);
  }

  show(scene: Scene, palette: Palette, marks: Marks): void {
    this.scene = scene;
    this.palette = palette;
    this.order = bySize(scene.radius);
    this.mark(marks);
  }

  /** Change what stands out. */
  mark(marks: Marks): void {
    this.marks = marks;
    if (this.scene) this.upload(this.scene);
    this.request();
  }

  move(camera: Camera): void {
    this.camera = camera;
    this.request();
  }

  /** The slot of the node at a point of the frame, or -1. */
  nodeAt(x: number, y: number): number {
    if (!this.scene) return -1;
    return nodeAt(this.scene, this.transform(), this.camera.zoom, x, y);
  }

  transform() {
    return transformOf(this.scene ?? { width: 1, height: 1 }, this.frame, this.camera);
  }

  size(): Frame {
    return this.frame;
  }

  stop(): void {
    cancelAnimationFrame(this.pending);
    this.watcher.disconnect();
    // Browsers keep few contexts: this one goes now, not when memory is cleaned up.
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
    this.surface.remove();
    this.paper.remove();
  }

  private resize(): void {
    const { width, height } = this.place.getBoundingClientRect();
    const ratio = window.devicePixelRatio;
    this.frame = { width: Math.max(width, 1), height: Math.max(height, 1) };
    for (const canvas of [this.surface, this.paper]) {
      canvas.width = Math.round(this.frame.width * ratio);
      canvas.height = Math.round(this.frame.height * ratio);
    }
    this.draw();
  }

  private request(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => this.draw());
  }

  /** Colors of the nodes, and the edges with those of marked nodes again on top. */
  private upload(scene: Scene): void {
    const { hovered, selected, path } = this.marks;
    const focus = hovered === -1 ? selected : hovered;
    const onPath = new Set(path);
    const color = scene.color.slice();
    if (path.length > 0) {
      const faint = bytesOf(this.palette.faint);
      for (let slot = 0; slot < scene.x.length; slot++)
        if (!onPath.has(slot) && slot !== focus) color.set(faint, 4 * slot);
    }
    this.nodes.fill(scene.x.length, [scene.x, scene.y, scene.radius, color]);

    const raised: number[] = [];
    const near: number[] = [];
    for (let edge = 0; 2 * edge < scene.ends.length; edge++) {
      const [from, to] = [scene.ends[2 * edge]!, scene.ends[2 * edge + 1]!];
      if (onPath.has(from) && onPath.has(to)) raised.push(edge);
      else if (from === focus || to === focus) raised.push(edge);
      if (from === selected) near.push(to);
      else if (to === selected) near.push(from);
    }
    this.fillEdges(scene, raised, onPath);
    this.named = [...new Set([hovered, selected, ...path, scene.target])].filter((one) => one >= 0);
    // Neighbors are named before others where there is room; far away a name would seem another's.
    const neighbors = near.length < MOST_NAMED ? near : [];
    this.others = Int32Array.of(...neighbors, ...(path.length > 0 ? [] : this.order));
  }

  private fillEdges(scene: Scene, raised: readonly number[], onPath: ReadonlySet<number>): void {
    const plain = scene.edgeWidth.length;
    const count = plain + raised.length;
    const columns = Array.from({ length: 4 }, () => new Float32Array(count));
    const [fromX, fromY, toX, toY] = columns as [
      Float32Array,
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    const width = new Float32Array(count);
    const color = new Uint8Array(4 * count);
    width.set(scene.edgeWidth);
    color.set(scene.edgeColor);
    const [near, path] = [bytesOf(this.palette.near), bytesOf(this.palette.path)];
    for (let at = 0; at < count; at++) {
      const edge = at < plain ? at : raised[at - plain]!;
      const [from, to] = [scene.ends[2 * edge]!, scene.ends[2 * edge + 1]!];
      fromX[at] = scene.x[from]!;
      fromY[at] = scene.y[from]!;
      toX[at] = scene.x[to]!;
      toY[at] = scene.y[to]!;
      if (at < plain) continue;
      const isPath = onPath.has(from) && onPath.has(to);
      width[at] = isPath ? PATH_WIDTH : Math.max(NEAR_WIDTH, scene.edgeWidth[edge]!);
      color.set(isPath ? path : near, 4 * at);
    }
    this.edges.fill(count, [fromX, fromY, toX, toY, width, color]);
  }

  private draw(): void {
    this.pending = 0;
    const { gl, scene, frame, camera } = this;
    if (!scene) return;
    const transform = this.transform();
    gl.viewport(0, 0, this.surface.width, this.surface.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    for (const program of [this.edges, this.nodes])
      program.draw(transform, frame, growth(transform, camera.zoom));
    this.write(scene);
    this.afterFrame();
  }

  private write(scene: Scene): void {
    const { frame, camera, marks, palette } = this;
    const writing = this.writing;
    const ratio = window.devicePixelRatio;
    writing.setTransform(ratio, 0, 0, ratio, 0, 0);
    writing.clearRect(0, 0, frame.width, frame.height);
    writing.textBaseline = "middle";
    const transform = this.transform();
    const labels = chooseLabels(scene, transform, camera.zoom, frame, this.named, this.others);
    const strong = new Set([marks.hovered, marks.selected, ...marks.path]);
    writing.fillStyle = palette.ink;
    writing.font = `${FONT_SIZE}px ${this.font}`;
    writing.strokeStyle = palette.raised;
    writing.lineWidth = 3;
    for (const { slot, x, y } of labels) {
      if (strong.has(slot)) continue;
      // Thick lines would cross the names; a large map has thin ones, and more names.
      if (scene.nodes.length <= MOST_WITH_ALL_EDGES) writing.strokeText(scene.labels[slot]!, x, y);
      writing.fillText(scene.labels[slot]!, x, y);
    }
    writing.font = `600 ${FONT_SIZE}px ${this.font}`;
    writing.strokeStyle = palette.target;
    writing.lineWidth = 2;
    const grown = growth(transform, camera.zoom);
    for (const { slot, x, y } of labels) {
      if (!strong.has(slot)) continue;
      writing.beginPath();
      writing.arc(
        scene.x[slot]! * transform.scaleX + transform.shiftX,
        scene.y[slot]! * transform.scaleY + transform.shiftY,
        scene.radius[slot]! * grown + 3,
        0,
        2 * Math.PI,
      );
      writing.stroke();
      // On the color of the page, so that it can be read over others.
      const text = scene.labels[slot]!;
      const width = writing.measureText(text).width;
      writing.fillStyle = palette.raised;
      writing.fillRect(x - 1, y - FONT_SIZE / 2 - 2, width + 4, FONT_SIZE + 4);
      writing.fillStyle = palette.ink;
      writing.fillText(text, x + 1, y);
    }
  }
}
