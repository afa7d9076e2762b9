"""Where a recording has speech: Silero VAD, from the weights of its ONNX file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay import ops
from assay._native import OnnxFile
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import interop
from assay.runtime.array import Array
from assay.runtime.hardware import Device, device as device_named
from assay.speech.file_names import SILERO_VAD
from assay.speech.single_chunks import STATE, ChunkNetwork

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 16_000
CHUNK: Final = 512
"""Samples that one probability is for: 32 ms."""

_CONTEXT: Final = 64
"""Samples of the chunk before that a chunk begins with."""
_REFLECTED: Final = 64
_STRIDE: Final = 128
_FEW: Final = 8
"""Chunks that are computed one by one: a stream's, which would wait for more launches than they are worth."""
_BLOCK: Final = 512
"""Chunks that go through the network at a time."""
_SHAPES: Final = {
    "model.stft.forward_basis_buffer": (258, 1, 256),
    "model.encoder.0.reparam_conv.weight": (128, 129, 3),
    "model.encoder.0.reparam_conv.bias": (128,),
    "model.encoder.1.reparam_conv.weight": (64, 128, 3),
    "model.encoder.1.reparam_conv.bias": (64,),
    "model.encoder.2.reparam_conv.weight": (64, 64, 3),
    "model.encoder.2.reparam_conv.bias": (64,),
    "model.encoder.3.reparam_conv.weight": (128, 64, 3),
    "model.encoder.3.reparam_conv.bias": (128,),
    "model.decoder.rnn.weight_ih": (512, 128),
    "model.decoder.rnn.weight_hh": (512, 128),
    "model.decoder.rnn.bias_ih": (512,),
    "model.decoder.rnn.bias_hh": (512,),
    "model.decoder.decoder.2.weight": (1, 128, 1),
    "model.decoder.decoder.2.bias": (1,),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """Speech from one sample up to another."""

    start: int
    end: int


class VoiceActivity:
    """The probability of speech in each chunk of 512 samples at 16 kHz, of a stream or of a whole recording."""

    def __init__(self, path: Path | str, device: Device | str = "cpu") -> None:
        """Load the weights of a file, or of a folder that `assay pull silero-vad` has filled."""
        file = Path(path)
        file = file / SILERO_VAD if file.is_dir() else file
        stored = {tensor.name: tensor for tensor in OnnxFile(file).graph.tensors()}
        self._device = device_named(device)
        self._weights: dict[str, Array] = {}
        values_by_name: dict[str, Floats] = {}
        for name, shape in _SHAPES.items():
            tensor = stored.get(name)
            if tensor is None or tensor.shape != shape or tensor.format != "f32":
                got = "none" if tensor is None else f"{tensor.format} of {tensor.shape}"
                raise InputError(
                    f"{file}: expected {name} as f32 of {shape}, got {got}",
                    "assay pull silero-vad downloads the file that is read",
                )
            values = np.frombuffer(memoryview(tensor), np.float32)  # type: ignore[arg-type]
            values_by_name[name] = values.reshape(shape)
            self._weights[name] = self._upload(values_by_name[name])
        self._network = ChunkNetwork(values_by_name)
        self.reset()

    def reset(self) -> None:
        """Forget the stream so far."""
        self._hidden = np.zeros(STATE, np.float32)
        self._cell = np.zeros(STATE, np.float32)
        self._before = np.zeros(_CONTEXT, np.float32)
        self._waiting = np.zeros(0, np.float32)

    def push(self, samples: Any) -> Floats:
        """The probabilities of the chunks that these samples of a stream complete."""
        joined = np.concatenate([self._waiting, _signal(samples)])
        count = len(joined) // CHUNK
        self._waiting = joined[count * CHUNK :]
        if not count:
            return np.zeros(0, np.float32)
        return self._chunks(joined[: count * CHUNK])

    def probabilities(self, samples: Any) -> Floats:
        """The probabilities of a whole recording; its last chunk is filled up with zeros. Any stream is forgotten."""
        self.reset()
        signal = _signal(samples)
        step = _BLOCK * CHUNK
        parts = [self.push(signal[first : first + step]) for first in range(0, len(signal), step)]
        parts.append(self.push(np.zeros(-len(signal) % CHUNK, np.float32)))
        self.reset()
        return np.concatenate(parts)

    def segments(self, samples: Any, **options: Any) -> list[Segment]:
        """The speech of a whole recording; options are those of `speech_segments`."""
        signal = _signal(samples)
        return speech_segments(self.probabilities(signal), len(signal), **options)

    def _upload(self, values: Floats) -> Array:
        return interop.asarray(np.ascontiguousarray(values), None, self._device, True)

    def _chunks(self, signal: Floats) -> Floats:
        """Probabilities of whole chunks: their convolutions all at once, then the recurrence from chunk to chunk."""
        joined = np.concatenate([self._before, signal])
        self._before = joined[-_CONTEXT:]
        count = len(signal) // CHUNK
        if count <= _FEW:
            return self._one_by_one(joined, count)
        at = np.arange(count)[:, None] * CHUNK + np.arange(_CONTEXT + CHUNK)
        # Reflected on the right, without the last sample.
        last = at[:, -1:] - 1 - np.arange(_REFLECTED)
        chunks = joined[np.concatenate([at, last], 1)]
        features = np.concatenate(
            [self._encode(chunks[first : first + _BLOCK]) for first in range(0, count, _BLOCK)]
        )
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = ops.LSTMWeights(*(self._weights[f"model.decoder.rnn.{name}"] for name in names))
        before = (self._upload(self._hidden[None]), self._upload(self._cell[None]))
        hidden, (shown, memory) = ops.lstm(self._upload(features), *weights, state=before)
        self._hidden, self._cell = shown.to_numpy()[0].copy(), memory.to_numpy()[0].copy()
        probabilities: Floats = self._network.probabilities(hidden.to_numpy())
        return probabilities

    def _one_by_one(self, joined: Floats, count: int) -> Floats:
        probabilities = np.empty(count, np.float32)
        for index in range(count):
            chunk = joined[index * CHUNK : (index + 1) * CHUNK + _CONTEXT]
            padded = np.concatenate([chunk, chunk[-2 : -2 - _REFLECTED : -1]])
            self._hidden, self._cell = self._network.step(padded, self._hidden, self._cell)
            probabilities[index] = self._network.probabilities(self._hidden)
        return probabilities

    def _encode(self, chunks: Floats) -> Floats:
        """128 features of each chunk."""
        basis = self._weights["model.stft.forward_basis_buffer"]
        parts = ops.conv1d(self._upload(chunks[:, None]), basis, stride=_STRIDE).to_numpy()
        magnitude = np.sqrt(np.square(parts[:, :129]) + np.square(parts[:, 129:]))
        x = self._upload(magnitude)
        for layer, stride in enumerate((1, 2, 2, 1)):
            name = f"model.encoder.{layer}.reparam_conv"
            weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
            x = ops.conv1d(x, weight, bias, stride=stride, padding=1, activation="relu")
        return np.asarray(x.to_numpy()[:, :, 0])


def _signal(samples: Any) -> Floats:
    values = samples.to_numpy() if isinstance(samples, Array) else samples
    signal = np.asarray(values, np.float32)
    if signal.ndim != 1:
        raise InputError(
            f"voice activity: expected samples of one channel at {SAMPLE_RATE} Hz, got shape {signal.shape}"
        )
    return signal


def speech_segments(
    probabilities: Floats,
    samples: int,
    *,
    threshold: float = 0.5,
    least_speech: float = 0.25,
    least_silence: float = 0.1,
    padding: float = 0.03,
    most_speech: float = math.inf,
) -> list[Segment]:
    """Speech in `samples` samples from the probabilities of their chunks; times are in seconds.

    Speech begins where a probability reaches the threshold and ends where it stays 0.15 below it for `least_silence`;
    what is shorter than `least_speech` is dropped, what is longer than `most_speech` is cut. Segments grow by `padding`
    on both sides, or meet in the middle. These are the rules and defaults of the silero-vad package.
    """
    if not 0 < threshold < 1 or most_speech <= 0:
        raise InputError(
            f"speech_segments: expected a threshold from 0 to 1 and a length above 0, got {threshold} and {most_speech}"
        )
    low = max(threshold - 0.15, 0.01)
    quiet, longest = least_silence * SAMPLE_RATE, most_speech * SAMPLE_RATE
    segments: list[Segment] = []
    start: int | None = None
    silence: int | None = None
    for index, probability in enumerate(probabilities):
        at = index * CHUNK
        if probability >= threshold:
            silence = None
            start = at if start is None else start
        if start is None:
            continue
        if at - start >= longest:
            segments.append(Segment(start, at))
            start, silence = (at if probability >= threshold else None), None
        elif probability < low:
            silence = at if silence is None else silence
            if at - silence >= quiet:
                segments.append(Segment(start, silence))
                start, silence = None, None
    if start is not None:
        segments.append(Segment(start, samples))
    kept = [part for part in segments if part.end - part.start > least_speech * SAMPLE_RATE]
    return _padded(kept, samples, round(padding * SAMPLE_RATE))


def _padded(segments: list[Segment], samples: int, padding: int) -> list[Segment]:
    grown: list[Segment] = []
    for index, part in enumerate(segments):
        before = segments[index - 1].end if index else -2 * padding
        after = segments[index + 1].start if index + 1 < len(segments) else samples + 2 * padding
        start = part.start - min(padding, (part.start - before) // 2)
        end = part.end + min(padding, (after - part.end) // 2)
        grown.append(Segment(max(start, 0), min(end, samples)))
    return grown
