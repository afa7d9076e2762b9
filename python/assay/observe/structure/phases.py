"""Phases and sizes of steps from the shapes of their kernels.

Rows of a kernel that works row by row (a norm, the write of the KV cache) are the step's tokens;
what is copied to the host after sampling has one entry a sequence. As many tokens as sequences: a
decode step. Nothing is guessed: a number needs two kernels that agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.observe.structure.alignment import Alignment
from assay.observe.structure.sequence import Names, Sequence

Ints = NDArray[np.int64]

_ROWWISE = ("input_norm", "post_attention_norm", "kv_cache_write", "rope", "activation", "qk_norm")


@dataclass(slots=True)
class StepShape:
    """What the kernels of a step say of its size; None where they do not agree."""

    tokens: int | None
    sequences: int | None
    replayed: bool
    """Whether one graph replay holds all of its layers."""
    scale: float
    """Nanoseconds a parameter takes in its GEMMs; 0 where not known."""
    layer_ns: int
    attention: frozenset[int]
    """Names of the kernels that are attention."""


def shape_of(
    sequence: Sequence, names: Names, aligned: Alignment, where: slice, scale: float
) -> StepShape:
    """The shape of the step whose kernels are at `where`."""
    states = aligned.automaton.states
    slots = [states[code].slot.operation for code in aligned.states[where].tolist()]
    kinds = [states[code].kind for code in aligned.states[where].tolist()]
    grid = sequence.grid[where]
    layers = aligned.layers[where]
    in_layer = layers >= 0
    rows: dict[int, set[str]] = {}
    for place in np.flatnonzero(in_layer).tolist():
        if slots[place] in _ROWWISE and grid[place, 0] > 0 and kinds[place] != "after_gemm":
            rows.setdefault(int(grid[place, 0]), set()).add(slots[place])
    agreed = {
        count: len(which)
        for count, which in rows.items()
        if len(which) > 1 and which & {"input_norm", "post_attention_norm", "kv_cache_write"}
    }
    tokens = max(agreed, key=lambda count: (agreed[count], count)) if agreed else None
    replay = sequence.replay[where][in_layer]
    replayed = bool(len(replay)) and replay[0] >= 0 and bool((replay == replay[0]).mean() > 0.95)
    attention = {
        int(code)
        for code, kind in zip(sequence.names[where].tolist(), kinds, strict=True)
        if kind == "attention"
    }
    return StepShape(
        tokens,
        _sequences(sequence, names, where, slots, tokens),
        replayed,
        scale,
        int(sequence.dur[where][in_layer].sum()),
        frozenset(attention),
    )


def _sequences(
    sequence: Sequence, names: Names, where: slice, slots: list[str], tokens: int | None
) -> int | None:
    """Sequences that are sampled: the entries of 4 or 8 bytes that are copied to the host."""
    possible: set[int] | None = None
    dims: set[int] = set()
    for place, (name, size) in enumerate(
        zip(sequence.names[where].tolist(), sequence.bytes[where].tolist(), strict=True)
    ):
        if slots[place] not in ("sampling", "collect_outputs", "select_logits"):
            continue
        dims.update(int(one) for one in sequence.grid[where][place])
        text = names.texts[name].lower()
        if names.kinds[name] != "memcpy" or not ("dtoh" in text or "host" in text.split("->")[-1]):
            continue
        if size > 0:
            entries = {size // width for width in (4, 8) if size % width == 0}
            possible = entries if possible is None else possible & entries
    if not possible:
        return None
    if tokens in possible:
        return tokens
    if len(possible) == 1:
        return possible.pop()
    confirmed = possible & dims
    return confirmed.pop() if len(confirmed) == 1 else None


def decide(shapes: list[StepShape]) -> tuple[list[str | None], list[str]]:
    """The phase of each step of one rank, and what could not be told."""
    known = [shape.tokens for shape in shapes if shape.tokens is not None]
    fewest = min(known, default=0)
    common = known.count(fewest) * 2 >= len(shapes) if known else False
    scales = [shape.scale for shape in shapes if shape.scale]
    floor = min(scales, default=0.0)
    phases: list[str | None] = []
    unsure = 0
    for shape in shapes:
        phase: str | None
        if shape.tokens is not None and shape.tokens in (1, shape.sequences):
            phase = "decode"
        elif shape.replayed:
            # Engines replay whole graphs for decode; more rows than sequences are padding or
            # speculated tokens.
            phase = "decode"
        elif shape.tokens is not None and shape.sequences is not None:
            phase = "decode" if shape.tokens < shape.sequences else "prefill"
        elif shape.tokens is not None:
            phase = "decode" if common and shape.tokens == fewest else "prefill"
            unsure += phase == "prefill"
        elif shape.scale and len(shapes) > 1 and max(scales) > 2 * floor:
            phase = "decode" if shape.scale <= 1.5 * floor else "prefill"
            unsure += 1
        else:
            phase = None
            unsure += 1
        phases.append(phase)
    _mark_mixed(shapes, phases)
    notes = []
    if missing := phases.count(None):
        notes.append(f"phase of {missing} of {len(phases)} steps is not known")
    if unsure > missing:
        notes.append(
            f"phase of {unsure - missing} of {len(phases)} steps follows from durations or tokens "
            "alone: a mixed step would be called prefill"
        )
    return phases, notes


def _mark_mixed(shapes: list[StepShape], phases: list[str | None]) -> None:
    """Prefill steps in which running sequences decode, too."""
    decoding = [shape.attention for shape, phase in zip(shapes, phases, strict=True)
                if phase == "decode"]  # fmt: skip
    decode_kernels = frozenset().union(*decoding)
    running = 0
    for number, (shape, phase) in enumerate(zip(shapes, phases, strict=True)):
        if phase == "prefill":
            # Two attention kernels a layer, one of them that of decode steps.
            other = shape.attention - decode_kernels
            both = bool(shape.attention & decode_kernels) and bool(other)
            count = shape.sequences
            grown = count is not None and (
                (running > 0 and count > running) or (running >= 4 and count > 0.75 * running)
            )
            if both or grown:
                phases[number] = "mixed"
        if shape.sequences is not None:
            running = (
                shape.sequences if phases[number] != "prefill" else max(running, shape.sequences)
            )
