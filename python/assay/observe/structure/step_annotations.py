"""Step annotations that engines write: phase, batch and tokens in the name of a range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.lazy_import import pl

_VLLM: Final = re.compile(r"execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)")
_SGLANG: Final = re.compile(r"step\[(\w+)([^\]]*)\]")
_FIELD: Final = re.compile(r"\b(\w+)=(\d{1,18})(?!\d)")
_PROFILER: Final = re.compile(r"ProfilerStep#\d+")
_SGLANG_PHASES: Final = {
    "DECODE": "decode", "TARGET_VERIFY": "decode", "DRAFT_EXTEND": "decode",
    "EXTEND": "prefill", "PREFILL": "prefill", "MIXED": "mixed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Annotation:
    """What the name of a step's range says; None where it says nothing."""

    phase: str | None = None
    batch: int | None = None
    prefill_tokens: int | None = None
    context: int | None = None
    requests: int | None = None


def parse(name: str) -> Annotation | None:
    """The annotation in a name, None where it is not one of a step.

    >>> parse("execute_context_1(512)_generation_8(8)")
    Annotation(phase='mixed', batch=8, prefill_tokens=512, context=None, requests=9)
    >>> parse("step[DECODE bs=64 g_sk=8256]").batch
    64
    """
    if match := _VLLM.search(name):
        prompts, tokens, sequences, _ = (int(group) for group in match.groups())
        phase = "mixed" if prompts and sequences else "prefill" if prompts else "decode"
        if not prompts and not sequences:
            return None
        return Annotation(phase, sequences, tokens, None, prompts + sequences)
    if match := _SGLANG.search(name):
        fields = {key: int(value) for key, value in _FIELD.findall(match.group(2))}
        decoded = _SGLANG_PHASES.get(match.group(1).upper())
        size = fields.get("bs")
        if decoded == "decode":
            return Annotation(decoded, size, 0, None, size)
        return Annotation(decoded, None, fields.get("toks", fields.get("tokens")), None, size)
    if _PROFILER.fullmatch(name):
        return Annotation()
    return None


@dataclass(slots=True)
class Ranges:
    """Annotated ranges in order of their start, on the device's or the host's timeline."""

    start: Ints
    stop: Ints
    on_device: Flags
    annotations: list[Annotation]


def find_ranges(events: pl.DataFrame) -> Ranges | None:
    """The step annotations of a trace; None without any."""
    ranges = events.filter(pl.col("kind") == "range").select(
        pl.col("name").cast(pl.String), pl.col("category").cast(pl.String), "start_ns", "dur_ns"
    )
    parsed = {name: parse(name) for name in ranges["name"].unique().to_list() if name is not None}
    known = [name for name, annotation in parsed.items() if annotation is not None]
    if not known:
        return None
    # A range that says the phase is worth more than one that only numbers steps.
    telling = [name for name in known if (annotation := parsed[name]) and annotation.phase]
    ranges = ranges.filter(pl.col("name").is_in(telling or known)).sort("start_ns")
    start = ranges["start_ns"].to_numpy()
    return Ranges(
        start,
        start + ranges["dur_ns"].to_numpy(),
        ranges["category"].fill_null("").str.starts_with("gpu").to_numpy(),
        [
            annotation
            for name in ranges["name"].to_list()
            if (annotation := parsed[name]) is not None
        ],
    )


def match(ranges: Ranges, device: Ints, host: Ints) -> list[Annotation | None]:
    """The annotation of each step, from moments on the device and, where known, of their launch.

    A moment of -1 is not known. The shortest range around a moment counts: ranges nest.
    """
    matched: list[Annotation | None] = []
    for on_device, on_host in zip(device.tolist(), host.tolist(), strict=True):
        moment = np.where(ranges.on_device, on_device, on_host)
        around = (ranges.start <= moment) & (moment < ranges.stop) & (moment >= 0)
        inside = np.flatnonzero(around)
        if not len(inside):
            matched.append(None)
            continue
        length = (ranges.stop - ranges.start)[inside]
        matched.append(ranges.annotations[int(inside[length.argmin()])])
    return matched
