"""What each number format of experts runs as, by accelerator and engine.

A format says how many bytes a weight has and in how many bits the tensor cores multiply; how fast
the kernels of an engine do that on an accelerator is measured (`calibration/expert_formats.json`).

>>> width("nvfp4").bits
4
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import unknown_name

_DIGITS = re.compile(r"\d{1,9}")
FILE = Path(__file__).parent / "calibration" / "expert_formats.json"


@dataclass(frozen=True)
class Width:
    """Bytes of a stored weight and of an activation, bits of the tensor cores' operands."""

    weight_bytes: float
    activation_bytes: float
    bits: int
    rate: float
    """What tensor cores do on these operands over 16-bit ones, where they have them."""


WIDTHS: Mapping[str, Width] = {
    "bfloat16": Width(2.0, 2.0, 16, 1.0),
    "fp8": Width(1.0, 1.0, 8, 2.0),
    # A 32-bit scale for each 128 x 128 weights, and for each 128 activations of a token.
    "fp8_block": Width(1.0, 1.0, 8, 2.0),
    # Four bits and an 8-bit scale for each 16 elements (NVFP4) or 32 elements (MXFP4).
    "nvfp4": Width(0.5625, 1.0, 4, 4.0),
    "w4a8_mxfp4_mxfp8": Width(0.53125, 1.0, 8, 2.0),
    "w4a16_mxfp4": Width(0.53125, 2.0, 16, 1.0),
    "int4_wo": Width(0.53125, 2.0, 16, 1.0),
}
"""Formats by their names in the tables."""
_16_BITS = "bfloat16"
_FIRST = "vllm"
"""The engine whose kernels are the default of an accelerator."""


@dataclass(frozen=True)
class PaddedExperts:
    """Kernels that multiply as many rows for every expert, with tokens or without."""

    before: tuple[int, ...]
    """The first release without them, as far as is known."""
    rows: float
    source: str
    measured: Mapping[str, str]
    """Engines whose tables have the same kernels, by accelerator; elsewhere the engine's own are taken."""


PADDED: Mapping[tuple[str, str], PaddedExperts] = {
    ("vllm", "fp8_block"): PaddedExperts(
        (0, 13), 128.0,
        "aiconfigurator-core 0.12.0, vLLM 0.12 on H200: Qwen3-235B takes as long with 4 requests as with 20; "
        "vLLM 0.11.1, fused_moe/deep_gemm_utils.py: a row for every choice of a token and 127 more for every expert",
        # DeepGEMM, by the column kernel_source.
        {"b200_sxm": "trtllm"},
    ),
}  # fmt: skip
"""By engine and format."""


def width(name: str) -> Width:
    """Bytes and bits of a format."""
    if name not in WIDTHS:
        raise unknown_name("format of experts", name, sorted(WIDTHS))
    return WIDTHS[name]


@dataclass(frozen=True)
class FoundFormat:
    """Constants of the expert kernels that run a format, and what had to be borrowed."""

    values: dict[str, float]
    notes: tuple[str, ...] = ()


def find(
    system: str, fallback: str, engine: str, name: str, multiple: float, release: Sequence[int] = ()
) -> FoundFormat | None:
    """Constants of the experts of an engine in a format; None where nothing like it was measured.

    `fallback` is the accelerator to borrow from; `multiple` is the rate of the operands on the
    accelerator over that of 16-bit ones, which the graph multiplies the share of the peak with.
    Without a release, the kernels are those of the newest that was measured.
    """
    rule = PADDED.get((engine, name))
    if rule is not None and not (release and tuple(release) < rule.before):
        rule = None
    entries, notes = _measured(
        system, fallback, rule.measured.get(system, engine) if rule else engine, name
    )
    if not entries:
        return None
    entry = _of_release(entries, release)
    share = float(entry["tile_rate"]) / multiple
    scope = "kernels.experts"
    further = _passed(entry)
    if rule is not None:
        further = {
            f"{scope}.untouched_share": 1.0, f"{scope}.tile_rows": rule.rows,
            f"{scope}.passed_share": 1.0,
        }  # fmt: skip
        notes = (*notes, f"experts in {name}: each padded to {rule.rows:g} rows, {rule.source}")
    return FoundFormat(
        {
            f"{scope}.launch_time": float(entry["launch_time"]),
            f"{scope}.sustained_share": min(share, 1.0),
            f"{scope}.read_share": float(entry["read_share"]),
            f"{scope}.activation_share": float(entry["activation_share"]),
            f"{scope}.tile_rows": float(entry["tile_rows"]),
            # The rate and the time without work are those of the format already.
            f"{scope}.eight_bit_share": 1.0,
            f"{scope}.eight_bit_time": 0.0,
            **further,
        },
        notes,
    )  # fmt: skip


def in_16_bits(
    system: str, fallback: str, engine: str, release: Sequence[int] = ()
) -> FoundFormat | None:
    """What the constants of an accelerator leave out of an engine's 16-bit experts.

    Those are of the newest release of the first engine, and of rows without expert ranks.
    """
    entries, notes = _measured(system, fallback, engine, _16_BITS)
    if not entries:
        return None
    entry = _of_release(entries, release)
    if entry["engine"] != engine:
        return None
    if engine == _FIRST and entry is not entries[-1]:
        own = find(system, fallback, engine, _16_BITS, 1.0, release)
        assert own is not None
        return FoundFormat(
            own.values, (*notes, f"experts in 16 bits: kernels of {engine} {entry['release']}")
        )
    return FoundFormat(_passed(entry), notes)


def _of_release(entries: Sequence[dict[str, Any]], release: Sequence[int]) -> dict[str, Any]:
    """The newest entry that is not after a release, else the oldest."""
    earlier = [e for e in entries if not release or _numbers(e["release"]) <= tuple(release)]
    return earlier[-1] if earlier else entries[0]


def _passed(entry: Mapping[str, Any]) -> dict[str, float]:
    """The cost of other ranks' rows, where a table has expert ranks."""
    share = entry.get("passed_share")
    return {} if share is None else {"kernels.experts.passed_share": float(share)}


def _measured(
    system: str, fallback: str, engine: str, name: str
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    table = _table()
    for where in dict.fromkeys((system, fallback)):
        for format_name in (name, *_SIMILAR.get(name, ())):
            engines = [e for s, e, f in table if (s, f) == (where, format_name)]
            for who in sorted(engines, key=lambda e: e != engine):
                notes = []
                if (where, who) != (system, engine):
                    notes.append(f"experts: kernels of {who} on {where}")
                if format_name != name:
                    notes.append(f"experts in {name}: measured as {format_name}")
                return table[where, who, format_name], tuple(notes)
    return [], ()


_SIMILAR = {
    "fp8_block": ("fp8",),
    "fp8": ("fp8_block",),
    "w4a8_mxfp4_mxfp8": ("w4a16_mxfp4", "nvfp4"),
    "w4a16_mxfp4": ("int4_wo",),
    "int4_wo": ("w4a16_mxfp4",),
}
"""Formats whose kernels do nearly the same work."""


def _numbers(release: str) -> tuple[int, ...]:
    """A release as numbers to compare.

    >>> _numbers("1.3.0rc20")
    (1, 3, 0)
    """
    return tuple(int(part) for part in _DIGITS.findall(release)[:3])


@cache
def _table() -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    entries = json.loads(FILE.read_text(encoding="utf-8"))["formats"]
    for entry in sorted(entries, key=lambda e: _numbers(e["release"])):
        rows.setdefault((entry["system"], entry["engine"], entry["format"]), []).append(entry)
    return rows
