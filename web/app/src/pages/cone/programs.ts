// The two WebGL programs of the map: circles and straight lines, both as instances of one square.

import type { Frame, Transform } from "./camera";

interface Source {
  /** Names of the numbers that every instance has; a name that ends in "color" has four bytes. */
  readonly columns: readonly string[];
  readonly vertex: string;
  readonly fragment: string;
}

/** A compiled program with its buffers. */
export interface Program {
  /** Send the columns of the instances, in the order of the source. */
  fill(count: number, columns: readonly (Float32Array | Uint8Array)[]): void;
  draw(transform: Transform, frame: Frame, grown: number): void;
}

const HEAD = `#version 300 es
precision highp float;
uniform vec2 scale, shift, size;
uniform float grown;
in vec2 corner;
out vec4 tint;
vec4 on_screen(vec2 pixel) {
  vec2 clip = pixel / size * 2.0 - 1.0;
  return vec4(clip.x, -clip.y, 0.0, 1.0);
}
`;

export const NODES: Source = {
  columns: ["x", "y", "radius", "color"],
  vertex: `${HEAD}
in float x, y, radius;
in vec4 color;
out vec2 offset;
out float edge;
void main() {
  edge = radius * grown;
  offset = corner * (edge + 1.0);
  tint = color;
  gl_Position = on_screen(vec2(x, y) * scale + shift + offset);
}`,
  // One pixel of softness at the rim.
  fragment: `#version 300 es
precision highp float;
in vec2 offset;
in float edge;
in vec4 tint;
out vec4 pixel;
void main() {
  float cover = clamp(edge + 0.5 - length(offset), 0.0, 1.0);
  pixel = vec4(tint.rgb * cover, cover);
}`,
};

export const EDGES: Source = {
  columns: ["from_x", "from_y", "to_x", "to_y", "width", "color"],
  vertex: `${HEAD}
in float from_x, from_y, to_x, to_y, width;
in vec4 color;
void main() {
  vec2 start = vec2(from_x, from_y) * scale + shift;
  vec2 end = vec2(to_x, to_y) * scale + shift;
  vec2 along = end - start;
  vec2 across = vec2(-along.y, along.x) / max(length(along), 0.001);
  tint = color;
  gl_Position = on_screen(mix(start, end, corner.x * 0.5 + 0.5) + across * corner.y * width * 0.5);
}`,
  fragment: `#version 300 es
precision highp float;
in vec4 tint;
out vec4 pixel;
void main() { pixel = vec4(tint.rgb, 1.0); }`,
};

export function compile(gl: WebGL2RenderingContext, source: Source): Program {
  const program = gl.createProgram();
  for (const [kind, text] of [
    [gl.VERTEX_SHADER, source.vertex],
    [gl.FRAGMENT_SHADER, source.fragment],
  ] as const) {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
    throw new Error(
      `the map's WebGL program: ${gl.getProgramInfoLog(program) ?? "no reason given"}`,
    );
  }
  const layout = gl.createVertexArray();
  gl.bindVertexArray(layout);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
  const corner = gl.getAttribLocation(program, "corner");
  gl.enableVertexAttribArray(corner);
  gl.vertexAttribPointer(corner, 2, gl.FLOAT, false, 0, 0);
  const buffers = source.columns.map((name) => {
    const buffer = gl.createBuffer();
    const at = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(at);
    if (name === "color") gl.vertexAttribPointer(at, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    else gl.vertexAttribPointer(at, 1, gl.FLOAT, false, 0, 0);
    gl.vertexAttribDivisor(at, 1);
    return buffer;
  });
  const uniform = (name: string) => gl.getUniformLocation(program, name);
  const [scale, shift, size, growth] = ["scale", "shift", "size", "grown"].map(uniform);
  let instances = 0;
  return {
    fill(count, columns) {
      instances = count;
      for (const [at, column] of columns.entries()) {
        gl.bindBuffer(gl.ARRAY_BUFFER, buffers[at]!);
        gl.bufferData(gl.ARRAY_BUFFER, column, gl.DYNAMIC_DRAW);
      }
    },
    draw(transform, frame, grown) {
      gl.useProgram(program);
      gl.bindVertexArray(layout);
      gl.uniform2f(scale!, transform.scaleX, transform.scaleY);
      gl.uniform2f(shift!, transform.shiftX, transform.shiftY);
      gl.uniform2f(size!, frame.width, frame.height);
      // Lines do not grow, so their program has no such uniform.
      if (growth) gl.uniform1f(growth, grown);
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, instances);
    },
  };
}
