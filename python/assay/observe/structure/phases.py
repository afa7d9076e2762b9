"""Phases and sizes of steps from the shapes of their kernels.

Rows of a kernel that works row by row (a norm, the write of the KV cache) are the step's tokens;
what is copied to the host after sampling has one entry a sequence. As many tokens as sequences: a
decode step. Nothing is guessed: a number needs two kernels that agree on it. A norm may work on
several rows at once: where the write of the KV cache, which stores each token once, has more rows, and
the copies to the host have as many entries, those two are believed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.array_types import Flags, Ints
from assay.observe.structure.alignment import Alignment
from assay.observe.structure.names import CLASS_CODES
from assay.observe.structure.sequence import Names, Sequence

_ROWWISE = ("input_norm", "post_attention_norm", "kv_cache_write", "rope", "activation", "qk_norm")
_SURE = frozenset(range(3))
"""Those of which one must agree: the others may work on several rows, or parts of one, at once."""
_WRITE = _ROWWISE.index("kv_cache_write")
_MOST_AT_ONCE = 32
_BLOCK_A_TOKEN = ("reshape_and_cache", "concat_and_cache_mla")
"""Names of kernels that write the KV cache with one block a token."""
Copied = tuple[list[int], NDArray[np.int32]]


@dataclass(slots=True)
class StepShape:
    """What the kernels of a step say of its size; None where they do not agree."""

    tokens: int | None
    sequences: int | None
    replayed: bool
    """Whether one graph replay holds all of its layers."""
    scale: float
    """Nanoseconds a parameter takes in its GEMMs; 0 where not known."""
    attention: frozenset[int]
    """Names of the kernels that are attention."""
    disputed: int | None = None
    """Rows that other kernels agree on, where they are not the step's tokens."""


def shapes_of(
    sequence: Sequence, names: Names, aligned: Alignment, steps: list[slice], scales: list[float]
) -> list[StepShape]:
    """The shapes of all steps of a sequence."""
    number = np.full(len(sequence), -1, np.int64)
    for step, where in enumerate(steps):
        number[where] = step
    in_layer = (aligned.layers >= 0) & (number >= 0)
    rows = _rows(sequence, aligned, number, in_layer, len(steps))
    copied = _copied(sequence, names, aligned, number, len(steps))
    is_exact = any(mark in text for text in names.texts for mark in _BLOCK_A_TOKEN)
    tokens, disputed = _tokens(rows, copied, is_exact=is_exact)
    replayed = _replayed(sequence.replay[in_layer], number[in_layer], len(steps))
    attention = _attention(sequence, aligned, number, len(steps))
    return [
        StepShape(
            tokens[step],
            _agreed(*copied[step], tokens[step]),
            bool(replayed[step]),
            scales[step],
            attention[step],
            disputed[step],
        )
        for step in range(len(steps))
    ]


def _slots(aligned: Alignment) -> list[str]:
    return [state.slot.operation for state in aligned.automaton.states]


def _rows(
    sequence: Sequence, aligned: Alignment, number: Ints, in_layer: Flags, count: int
) -> list[dict[int, set[int]]]:
    """Of each step, the numbers of rows that row-wise kernels have, and which kinds have them."""
    states = aligned.automaton.states
    code = np.array(
        [
            _ROWWISE.index(state.slot.operation) if state.slot.operation in _ROWWISE else -1
            for state in states
        ]
    )[aligned.states]
    chosen = in_layer & (code >= 0) & (sequence.grid[:, 0] > 0)
    rows = sequence.grid[chosen, 0].astype(np.int64)
    packed = np.unique((number[chosen] << 40) + (rows << 8) + code[chosen])
    votes: list[dict[int, set[int]]] = [{} for _ in range(count)]
    for vote in packed.tolist():
        votes[vote >> 40].setdefault((vote >> 8) & 0xFFFFFFFF, set()).add(vote & 0xFF)
    return votes


def _tokens(
    rows: list[dict[int, set[int]]], copied: list[Copied], *, is_exact: bool
) -> tuple[list[int | None], list[int | None]]:
    """Rows that two kinds of row-wise kernels of a step agree on; and those that were not believed."""
    agreed = [_agreed_rows(votes) for votes in rows]
    written = [_written(votes) for votes in rows]
    disputed: list[int | None] = [None] * len(rows)
    # Several rows at once: the same number of them in every step.
    at_once = [_at_once(size, cached) for size, cached in zip(agreed, written, strict=True)]
    believed = {
        rows_at_once
        for rows_at_once, size, cached, (sizes, _) in zip(
            at_once, agreed, written, copied, strict=True
        )
        if rows_at_once and (entries := _entries(sizes))
        if cached in entries and (is_exact or size not in entries)
    }
    for step, rows_at_once in enumerate(at_once):
        if rows_at_once:
            disputed[step] = agreed[step]
            if rows_at_once in believed:
                agreed[step] = written[step]
    return agreed, disputed


def _at_once(size: int | None, written: int | None) -> int | None:
    """Rows that each block of a kernel would work on, if `written` rows made `size` blocks."""
    if not size or not written or written <= size:
        return None
    return next(
        (count for count in range(2, _MOST_AT_ONCE + 1) if -(-written // count) == size), None
    )


def _agreed_rows(votes: dict[int, set[int]]) -> int | None:
    agreed = {size: len(which) for size, which in votes.items() if len(which) > 1 and which & _SURE}
    return max(agreed, key=lambda size: (agreed[size], size)) if agreed else None


def _written(votes: dict[int, set[int]]) -> int | None:
    """Rows of the write of the KV cache, where it has one number of them."""
    sizes = [size for size, which in votes.items() if _WRITE in which]
    return sizes[0] if len(sizes) == 1 else None


def _replayed(replay: Ints, number: Ints, count: int) -> Flags:
    """Whether nearly all layers of a step are in the replay of its middle kernel."""
    replayed = np.zeros(count, bool)
    edges = np.searchsorted(number, np.arange(count + 1))
    for step in range(count):
        mine = replay[edges[step] : edges[step + 1]]
        if len(mine):
            middle = mine[len(mine) // 2]
            replayed[step] = middle >= 0 and (mine == middle).mean() > 0.95
    return replayed


def _attention(
    sequence: Sequence, aligned: Alignment, number: Ints, count: int
) -> list[frozenset[int]]:
    states = aligned.automaton.states
    is_attention = np.array([state.kind == "attention" for state in states])[aligned.states]
    chosen = is_attention & (number >= 0)
    packed = np.unique((number[chosen] << 32) + sequence.names[chosen])
    kernels: list[set[int]] = [set() for _ in range(count)]
    for pair in packed.tolist():
        kernels[pair >> 32].add(pair & 0xFFFFFFFF)
    return [frozenset(names) for names in kernels]


def _copied(
    sequence: Sequence, names: Names, aligned: Alignment, number: Ints, count: int
) -> list[Copied]:
    """Of each step, the bytes that are copied to the host after sampling, and the grids beside them."""
    after = ("sampling", "collect_outputs", "select_logits")
    is_after = np.array([slot in after for slot in _slots(aligned)])[aligned.states]
    rows = np.flatnonzero(is_after & (number >= 0))
    is_copy = np.array(names.classes == CLASS_CODES["copy_out"])[sequence.names[rows]]
    edges = np.searchsorted(number[rows], np.arange(count + 1))
    copied = []
    for step in range(count):
        mine = slice(edges[step], edges[step + 1])
        sizes = sequence.bytes[rows[mine]][is_copy[mine]].tolist()
        copied.append((sizes, sequence.grid[rows[mine]]))
    return copied


def _entries(sizes: list[int]) -> set[int] | None:
    """The counts that all copies may have: one entry of 4 or 8 bytes a sequence."""
    possible: set[int] | None = None
    for size in sizes:
        if size > 0:
            entries = {size // width for width in (4, 8) if size % width == 0}
            possible = entries if possible is None else possible & entries
    return possible


def _agreed(sizes: list[int], grids: NDArray[np.int32], tokens: int | None) -> int | None:
    """Sequences that are sampled: the count that all copies agree on."""
    possible = _entries(sizes)
    if not possible:
        return None
    if tokens in possible:
        return tokens
    if len(possible) == 1:
        return possible.pop()
    confirmed = possible & set(grids.ravel().tolist())
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
    notes = _disputes(shapes)
    if missing := phases.count(None):
        notes.append(f"phase of {missing} of {len(phases)} steps is not known")
    if unsure > missing:
        notes.append(
            f"phase of {unsure - missing} of {len(phases)} steps follows from durations or tokens "
            "alone: a mixed step would be called prefill"
        )
    return phases, notes


def _disputes(shapes: list[StepShape]) -> list[str]:
    """A note on kernels that disagree about the tokens of steps, with the commonest example."""
    disputes = Counter(
        (shape.tokens, shape.disputed) for shape in shapes if shape.disputed is not None
    )
    if not disputes:
        return []
    (taken, other), _ = disputes.most_common(1)[0]
    count = sum(disputes.values())
    if taken == other:
        return [
            f"tokens of {count} of {len(shapes)} steps: the write of the KV cache has more rows than "
            f"the norms, {other:,} of which are taken; --batch says how many sequences decode"
        ]
    return [
        f"tokens of {count} of {len(shapes)} steps: the write of the KV cache and the copies to the "
        f"host say {taken:,}, norms have {other:,} rows: the former are taken"
    ]


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
