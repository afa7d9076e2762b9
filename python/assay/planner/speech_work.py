"""What models of speech compute: the products of a transcription and of speech, from the models' sizes alone.

Norms, activations, the attention over the text so far and the search are left out: they are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from assay.planner.counted import Work
from assay.speech.whisper.files import Dimensions

WINDOW_S: Final = 30.0
"""Seconds that Whisper's encoder hears at once, however short the recording is."""
FRAMES_PER_SECOND: Final = 40
"""Kokoro's frames: 600 samples of 24,000 a second."""
_KERNEL: Final = 3
_FLOAT: Final = 4
"""Bytes of an activation."""
_BYTES: Final = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32}
"""Of a weight."""


class Product(NamedTuple):
    """Rows and weights multiplied, so many `times` one after the other."""

    part: str
    times: float
    rows: float
    inputs: int
    outputs: int
    format: str = "f32"
    share: float = 1.0
    """Arithmetic beside that of a linear layer of the format."""
    written: int | None = None
    """Outputs of a row that are written; all of them if not given."""

    @property
    def work(self) -> Work:
        """Of each."""
        weights = self.inputs * self.outputs * _BYTES[self.format]
        written = self.outputs if self.written is None else self.written
        moved = weights + self.rows * (self.inputs + written) * _FLOAT
        return Work(2 * self.rows * self.inputs * self.outputs, moved)


def whisper_products(
    sizes: Dimensions, windows: int, tokens: int, beams: int, format: str
) -> Iterator[Product]:
    """Of recordings of so many windows, with so many tokens of text in each."""
    frames, width = sizes.audio_context, sizes.audio_width
    part = "encoder"
    yield Product(part, windows, 2 * frames, _KERNEL * sizes.mels, width, format)
    yield Product(part, windows, frames, _KERNEL * width, width, format)
    layers = windows * sizes.audio_layers
    yield Product(part, 4 * layers, frames, width, width, format)
    yield Product(part, layers, frames, width, 4 * width, format)
    yield Product(part, layers, frames, 4 * width, width, format)
    yield _attention("encoder", layers, frames, frames, width)
    width = sizes.text_width
    yield Product(part, 2 * windows * sizes.text_layers, frames, width, width, format)
    steps = tokens * windows
    layers = steps * sizes.text_layers
    part = "decoder"
    yield Product(part, layers, beams, width, 3 * width, format)
    yield Product(part, 3 * layers, beams, width, width, format)
    yield Product(part, layers, beams, width, 4 * width, format)
    yield Product(part, layers, beams, 4 * width, width, format)
    yield _attention(part, layers, beams, frames, width)
    yield Product(part, steps, beams, width, sizes.vocabulary, format)


def _attention(part: str, times: float, queries: float, keys: int, width: int) -> Product:
    """Scores and sums: keys and values are what a linear layer's weights are; scores stay in caches."""
    return Product(part, times, queries, width, 2 * keys, written=width)


def kokoro_products(
    configuration: Mapping[str, Any], phonemes: int, seconds: float, share: float
) -> Iterator[Product]:
    """Of so many phonemes and seconds; `share` is the arithmetic of the generator's products."""
    # Two marks are around the phonemes.
    rows, frames = phonemes + 2, round(seconds * FRAMES_PER_SECOND)
    yield from _text(configuration, rows)
    yield from _prosody(configuration, rows, frames)
    yield from _decoder(configuration, frames)
    yield from _generator(configuration, frames, share)


def _text(configuration: Mapping[str, Any], rows: int) -> Iterator[Product]:
    albert, hidden = configuration["plbert"], configuration["hidden_dim"]
    width, inner = albert["hidden_size"], albert["intermediate_size"]
    layers = albert["num_hidden_layers"]
    yield Product("text", 1, rows, configuration["style_dim"], width)
    yield Product("text", 4 * layers, rows, width, width)
    yield Product("text", layers, rows, width, inner)
    yield Product("text", layers, rows, inner, width)
    yield _attention("text", layers, rows, rows, width)
    yield Product("text", 1, rows, width, hidden)
    taps = configuration["text_encoder_kernel_size"]
    yield Product("text", configuration["n_layer"], rows, taps * hidden, hidden)
    yield from _recurrence("text", 1, rows, hidden, hidden)


def _prosody(configuration: Mapping[str, Any], rows: int, frames: int) -> Iterator[Product]:
    hidden = configuration["hidden_dim"]
    styled = hidden + configuration["style_dim"]
    yield from _recurrence("prosody", configuration["n_layer"] + 1, rows, styled, hidden)
    yield Product("prosody", 1, rows, hidden, configuration["max_dur"])
    yield from _recurrence("prosody", 1, frames, styled, hidden)
    # Pitch and loudness.
    half = hidden // 2
    for before, after, width in ((hidden, hidden, 1), (hidden, half, 2), (half, half, 2)):
        yield Product("prosody", 2, width * frames, _KERNEL * before, after)
        yield Product("prosody", 2, width * frames, _KERNEL * after, after)
    yield Product("prosody", 2, frames, hidden, half)
    yield Product("prosody", 2, 2 * frames, half, 1)


def _recurrence(part: str, count: int, rows: int, inputs: int, outputs: int) -> Iterator[Product]:
    """A bidirectional LSTM: the inputs of all rows at once, the states row by row."""
    gates = 4 * outputs // 2
    yield Product(part, 2 * count, rows, inputs, gates)
    yield Product(part, 2 * count * rows, 1, outputs // 2, gates)


def _decoder(configuration: Mapping[str, Any], frames: int) -> Iterator[Product]:
    hidden = configuration["hidden_dim"]
    wide, text = 2 * hidden, configuration["dim_in"]
    given = wide + text + 2
    yield Product("decoder", 1, frames, hidden, text)
    blocks = ((hidden + 2, wide, 1), (given, wide, 1), (given, wide, 1), (given, wide, 1))
    for before, after, width in (*blocks, (given, hidden, 2)):
        yield Product("decoder", 1, width * frames, _KERNEL * before, after)
        yield Product("decoder", 1, width * frames, _KERNEL * after, after)
        yield Product("decoder", 1, frames, before, after)


def _generator(configuration: Mapping[str, Any], frames: int, share: float) -> Iterator[Product]:
    shapes = configuration["istftnet"]
    channels, part = shapes["upsample_initial_channel"], "generator"
    bins = shapes["gen_istft_n_fft"] + 2
    rates, columns = shapes["upsample_rates"], 2 * frames
    kernels = shapes["resblock_kernel_sizes"]
    for index, (rate, kernel) in enumerate(
        zip(rates, shapes["upsample_kernel_sizes"], strict=True)
    ):
        is_last = index == len(rates) - 1
        half = channels // 2
        yield Product(part, 1, columns, channels, half * kernel, share=share)
        columns = columns * rate + is_last
        later = 1 if is_last else rates[-1]
        yield Product(part, 1, columns, bins * (1 if is_last else 2 * later), half, share=share)
        # The block of the source has the kernel of 7, and of 11 at last.
        for taps in (*kernels, kernels[-1] if is_last else kernels[1]):
            pairs = sum(len(dilations) for dilations in shapes["resblock_dilation_sizes"][:1])
            yield Product(part, 2 * pairs, columns, taps * half, half, share=share)
        channels = half
    yield Product(part, 1, columns, kernels[1] * channels, bins, share=share)
