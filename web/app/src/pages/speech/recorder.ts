// What the microphone hears, as samples of 16 kHz.

import { mixed } from "./wav";

export const RATE = 16_000;
/** Seconds of a recording at most: what one request may hold. */
export const LONGEST = 30;

export interface Recorder {
  /** End the recording: its samples. */
  readonly stop: () => Promise<Float32Array>;
  /** Resolves when the recording has ended, by `stop` or after the longest time. */
  readonly ended: Promise<void>;
}

export async function startRecording(): Promise<Recorder> {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("this browser records only at localhost or over HTTPS");
  }
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const media = new MediaRecorder(stream);
  const parts: Blob[] = [];
  media.ondataavailable = (event) => parts.push(event.data);
  const ended = new Promise<void>((resolve) => {
    media.onstop = () => resolve();
  });
  media.start();
  const timer = window.setTimeout(() => media.state === "recording" && media.stop(), 1e3 * LONGEST);
  return {
    ended,
    stop: async () => {
      window.clearTimeout(timer);
      if (media.state === "recording") media.stop();
      await ended;
      for (const track of stream.getTracks()) track.stop();
      return resampled(await new Blob(parts).arrayBuffer());
    },
  };
}

/** Any sound that the browser reads, as one channel of 16 kHz. */
export async function resampled(content: ArrayBuffer): Promise<Float32Array> {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(content);
    const length = Math.max(1, Math.min(LONGEST * RATE, Math.ceil(sound.duration * RATE)));
    const offline = new OfflineAudioContext(sound.numberOfChannels, length, RATE);
    const source = offline.createBufferSource();
    source.buffer = sound;
    source.connect(offline.destination);
    source.start();
    const done = await offline.startRendering();
    return mixed(Array.from({ length: done.numberOfChannels }, (_, at) => done.getChannelData(at)));
  } finally {
    await context.close();
  }
}

/** Play a sound; resolves at its end. */
export async function play(content: ArrayBuffer): Promise<void> {
  const context = new AudioContext();
  try {
    const source = context.createBufferSource();
    source.buffer = await context.decodeAudioData(content);
    source.connect(context.destination);
    await new Promise<void>((resolve) => {
      source.onended = () => resolve();
      source.start();
    });
  } finally {
    await context.close();
  }
}
