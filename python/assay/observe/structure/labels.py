"""Operations of aligned kernels, with the names of what they fuse."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.array_types import Flags, Ints
from assay.observe import operations
from assay.observe.structure.alignment import Alignment
from assay.observe.structure.grammar import Slot

UNMAPPED: Final = 4.5
"""A name that costs as much in its slot says another operation: the kernel stays unmapped."""

_ORDER: Final = {name: place for place, name in enumerate(operations.LAYER_OPERATIONS)}


def label(aligned: Alignment) -> tuple[list[str], Ints]:
    """The operations that occur, and for each kernel its number in that list, -1 for none.

    An operation of the graph that most layers of a step have no kernel for is fused: the kernel
    that does its work carries both names.
    """
    states = aligned.automaton.states
    names = [state.slot.operation for state in states]
    table = list(dict.fromkeys(names))
    number = {name: code for code, name in enumerate(table)}
    by_state = np.array([number[name] for name in names], np.int64)
    ops = by_state[aligned.states]
    is_core = np.array([state.kind == state.slot.kind for state in states])[aligned.states]
    _fuse(aligned, ops, is_core, table, number)
    ops[aligned.misfit >= UNMAPPED] = -1
    return table, ops


def _fuse(
    aligned: Alignment, ops: Ints, is_core: Flags, table: list[str], number: dict[str, int]
) -> None:
    slots = {
        state.slot.operation: state.slot
        for state in aligned.automaton.states
        if state.slot.fused_into
    }
    in_layer = aligned.layers >= 0
    if not in_layer.any():
        return
    width = int(aligned.layers.max()) + 1
    steps = aligned.passes - aligned.passes.min()
    place = np.where(in_layer, steps * width + aligned.layers, 0)
    places = int(steps.max() + 1) * width
    plain = ops.copy()
    has = {
        name: _present(place[in_layer & (plain == code)], places) for name, code in number.items()
    }
    used = _present(place[in_layer], places)
    combos: dict[tuple[str, ...], int] = {}
    added: dict[str, Flags] = {}
    for operation, slot in slots.items():
        for target, where in _fusions(operation, slot, has, used, width):
            added.setdefault(f"{operation}>{target}", np.zeros(places, bool))[where] = True
    for code, name in enumerate(list(table)):
        keys = [key for key in added if key.endswith(f">{name}")]
        if not keys:
            continue
        rows = np.flatnonzero(is_core & (plain == code) & in_layer)
        flags = np.stack([added[key][place[rows]] for key in keys], axis=1)
        for pattern in np.unique(flags, axis=0):
            if not pattern.any():
                continue
            parts = {key.split(">")[0] for key, on in zip(keys, pattern, strict=True) if on}
            joined = tuple(sorted({*operations.parts(name), *parts}, key=_ORDER.__getitem__))
            if joined not in combos:
                combos[joined] = len(table)
                table.append("+".join(joined))
            chosen = rows[(flags == pattern).all(axis=1)]
            ops[chosen] = combos[joined]


def _present(places: Ints, count: int) -> Flags:
    present = np.zeros(count, bool)
    present[places] = True
    return present


def _fusions(
    operation: str, slot: Slot, has: dict[str, Flags], used: Flags, width: int
) -> list[tuple[str, Flags]]:
    """Where an operation without a kernel is done, by operation: flags of layers."""
    candidates = [name for name in slot.fused_into if name in has]
    possible = np.zeros_like(used)
    for name in candidates:
        possible |= has[name]
    missing = used & possible & ~has[operation]
    # One layer whose norm belongs to the embedding does not make a fusion.
    share = missing.reshape(-1, width).sum(axis=1) / np.maximum(
        (used & possible).reshape(-1, width).sum(axis=1), 1
    )
    left = missing & np.repeat(share > 0.5, width)
    fusions = []
    for name in candidates:
        here = left & has[name]
        if here.any():
            fusions.append((name, here))
            left = left & ~here
    return fusions
