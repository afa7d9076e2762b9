import assert from "node:assert/strict";
import { test } from "node:test";
import { mixed, wavOf } from "../app/src/pages/speech/wav";

test("a WAV file has the header of RIFF and samples of 16 bits", () => {
  const file = new DataView(wavOf(Float32Array.of(0, 1, -1, 2, 0.5), 16_000));
  const text = (at: number, length: number) =>
    String.fromCharCode(...new Uint8Array(file.buffer, at, length));
  assert.equal(file.byteLength, 44 + 10);
  assert.equal(text(0, 4), "RIFF");
  assert.equal(file.getUint32(4, true), file.byteLength - 8);
  assert.equal(text(8, 8), "WAVEfmt ");
  // PCM, one channel, 16 kHz, 32,000 bytes a second, 2 of a frame, 16 bits.
  assert.deepEqual(
    [20, 22, 32, 34].map((at) => file.getUint16(at, true)),
    [1, 1, 2, 16],
  );
  assert.deepEqual(
    [16, 24, 28, 40].map((at) => file.getUint32(at, true)),
    [16, 16_000, 32_000, 10],
  );
  const samples = [0, 1, 2, 3, 4].map((at) => file.getInt16(44 + 2 * at, true));
  assert.deepEqual(samples, [0, 32_767, -32_767, 32_767, 16_384]);
});

test("channels are mixed to one", () => {
  assert.deepEqual([...mixed([Float32Array.of(1, 0), Float32Array.of(0, 0.5)])], [0.5, 0.25]);
  assert.deepEqual([...mixed([])], []);
});
