// A recording as a WAV file: one channel of 16 bits.

const HEADER = 44;

/** The mean of all channels. */
export function mixed(channels: readonly Float32Array[]): Float32Array {
  const out = new Float32Array(channels[0]?.length ?? 0);
  for (const channel of channels) {
    for (let at = 0; at < out.length; at++) out[at]! += channel[at]! / channels.length;
  }
  return out;
}

/** Samples from -1 to 1 as a file; what is beyond them is clipped. */
export function wavOf(samples: Float32Array, rate: number): ArrayBuffer {
  const buffer = new ArrayBuffer(HEADER + 2 * samples.length);
  const view = new DataView(buffer);
  const text = (at: number, value: string) => {
    for (let index = 0; index < value.length; index++) {
      view.setUint8(at + index, value.charCodeAt(index));
    }
  };
  text(0, "RIFF");
  view.setUint32(4, HEADER - 8 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  for (let at = 0; at < samples.length; at++) {
    const value = Math.max(-1, Math.min(1, samples[at]!));
    view.setInt16(HEADER + 2 * at, Math.round(value * 32_767), true);
  }
  return buffer;
}
