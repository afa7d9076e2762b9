"""What a transcription or speech should take on this machine, and its floor, from what the models compute."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.answers import Answer
from assay.engine.loading import sources
from assay.errors import InputError
from assay.planner.calibrate.lookup import linear_seconds, select
from assay.planner.counted import floor_seconds
from assay.planner.sources import hardware_spec
from assay.planner.specs import HardwareSpec
from assay.planner.speech_work import WINDOW_S, Product, kokoro_products, whisper_products

KOKORO: Final = "kokoro"
_INT8: Final = "q8_0"
_SPLIT_ROWS: Final = 32
"""Rows from which weights of 16 bits are products of single precision."""
_SHARES: Final = {"default": 4 / 6, "bfloat16": 1 / 6}
"""Products of terms of the generator's convolutions, of the six of single precision."""
_NOTES: Final = (
    "attention at the rates of linear layers; norms, activations and the search are not counted",
)


class SpeechPart(NamedTuple):
    """A part of a model: what it computes, should take and could take at least."""

    part: str
    gflop: float
    seconds: float
    floor_s: float


@dataclass(frozen=True)
class SpeechPrediction(Answer):
    """A predicted transcription, or speech."""

    model: str
    hardware: str
    audio_s: float
    seconds: float
    floor_s: float
    real_time_factor: float
    """Seconds of computing for each of sound."""
    parts: Sequence[SpeechPart]

    def headline(self) -> str:
        """The time beside that of the sound."""
        return (
            f"{self.seconds * 1e3:,.0f} ms for {self.audio_s:g} s of sound; at least "
            f"{self.floor_s * 1e3:,.0f} ms"
        )


def predict_speech(
    model: str,
    seconds: float,
    *,
    tokens: int | None = None,
    phonemes: int | None = None,
    beam_size: int = 5,
    compute_type: str = "default",
    hardware: str = "cpu",
) -> SpeechPrediction:
    """Predict what a model of speech takes for so many seconds of sound.

    Whisper hears windows of 30 seconds, each with `tokens` of text; Kokoro says `phonemes`. The hardware is a
    calibration of a CPU. Nothing runs, but the model's files say how large it is.
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"seconds: expected a number above 0, got {seconds:g}")
    if model == KOKORO:
        products = _speaking(seconds, _given("phonemes", phonemes, model), compute_type)
    else:
        windows = math.ceil(seconds / WINDOW_S)
        steps = _given("tokens", tokens, model)
        products = _transcribing(model, windows, steps, beam_size, compute_type)
    return predicted(model, seconds, list(products), hardware_spec(hardware))


def predicted(
    model: str, audio_s: float, products: Sequence[Product], hardware: HardwareSpec
) -> SpeechPrediction:
    """What products should take: as linear layers that were measured."""
    threads = [
        int(ceiling.parameters["threads"])
        for ceiling in hardware.ceilings.values()
        if "threads" in ceiling.parameters
    ]
    if not threads or not any(select(hardware.ceilings, "linear", dtype="f32")):
        raise InputError(
            f"{hardware.name}: expected a calibrated CPU, got no measured linear layers",
            "assay calibrate --device cpu",
        )
    parts = []
    for name in dict.fromkeys(product.part for product in products):
        own = [product for product in products if product.part == name]
        expected = sum(_seconds(product, hardware, max(threads)) for product in own)
        flops = sum(product.times * product.work.flops for product in own)
        floor = sum(product.times * floor_seconds([product.work], hardware) for product in own)
        parts.append(SpeechPart(name, flops / 1e9, expected, floor))
    total, floor = (sum(getattr(part, name) for part in parts) for name in ("seconds", "floor_s"))
    return SpeechPrediction(
        model=model,
        hardware=hardware.name,
        audio_s=audio_s,
        seconds=total,
        floor_s=floor,
        real_time_factor=total / audio_s,
        parts=parts,
        notes=_NOTES,
    )


def _seconds(product: Product, hardware: HardwareSpec, threads: int) -> float:
    rows = max(round(product.rows), 1)
    format = product.format
    if format == "f16":
        format = "f32" if rows >= _SPLIT_ROWS else "bf16"
    each = linear_seconds(
        hardware.ceilings, format, rows, product.outputs, product.inputs, threads=threads
    )
    return product.times * product.share * each


def _transcribing(
    model: str, windows: int, tokens: int, beams: int, compute_type: str
) -> Iterator[Product]:
    from assay.speech.whisper.layers import COMPUTE_TYPES
    from assay.speech.whisper.loading import open_files

    if compute_type not in COMPUTE_TYPES:
        raise InputError(f"compute_type: expected {' or '.join(COMPUTE_TYPES)}, got {compute_type}")
    if beams < 1:
        raise InputError(f"beam_size: expected 1 or more, got {beams}")
    files = open_files(sources.pulled_path(model))
    stored = files.tensor("encoder.conv1.weight").dtype.itemsize
    format = _INT8 if compute_type == "int8" else "f16" if stored == 2 else "f32"
    return whisper_products(files.dimensions, windows, tokens, beams, format)


def _speaking(seconds: float, phonemes: int, compute_type: str) -> Iterator[Product]:
    from assay.engine.loading.speech_files import speech_folder

    if compute_type not in _SHARES:
        raise InputError(f"compute_type: expected {' or '.join(_SHARES)}, got {compute_type}")
    path = speech_folder(KOKORO) / "config.json"
    configuration = json.loads(path.read_text(encoding="utf-8"))
    return kokoro_products(configuration, phonemes, seconds, _SHARES[compute_type])


def _given(name: str, value: int | None, model: str) -> int:
    if value is None or value < 1:
        raise InputError(
            f"{name}: expected a number of 1 or more for {model}, got {value}",
            f"for example: --{name} 40",
        )
    return value
