"""Formulas that many relations share, as tapes.

The time of a GEMM's tile is one formula of hundreds of operations, declared for every GEMM and tile
with other variables. A stored registry holds the formula once, as a tape over the inputs by position.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from assay._native import Tape
from assay.model.language.encoding import expression_of_entries, read_entries, variables_of_entries
from assay.model.tapes.program import TapeProgram

LEAST_ENTRIES = 48
"""A shorter formula is evaluated from its entries in less time than a tape takes to start."""


class Formula:
    """A formula over inputs by position, read from its stored form on first use."""

    def __init__(self, stored: str) -> None:
        """Take the tape's bytes in base 64."""
        self._stored = stored
        self._tape: Tape | None = None

    def __call__(self, inputs: Sequence[str], values: Mapping[str, float]) -> float:
        """The value with these variables as inputs."""
        if self._tape is None:
            self._tape = Tape.from_bytes(base64.b64decode(self._stored))
        # A buffer of its own for each call: another thread may evaluate the same formula.
        result = array("d", [0.0])
        output = memoryview(result).cast("B").cast("d", (1, 1))
        self._tape.evaluate([values[name] for name in inputs], 1, output)
        return result[0]


def shared_formulas(relations: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, int]]:
    """The formulas that several relations share, stored, and the number of each relation's."""
    users: dict[str, list[str]] = {}
    for facts in relations:
        if set(facts["parts"]) - {"valid"} != {"expression"}:
            continue
        entries = read_entries(facts["parts"]["expression"])
        if len(entries) >= LEAST_ENTRIES:
            users.setdefault(_by_position(entries), []).append(facts["name"])
    shared = {formula: names for formula, names in users.items() if len(names) > 1}
    numbers = {name: n for n, names in enumerate(shared.values()) for name in names}
    return [_store(json.loads(formula)) for formula in shared], numbers


def _by_position(entries: Sequence[Any]) -> str:
    """The entries with every variable replaced by its position among the inputs, as its name."""
    position = {name: str(place) for place, name in enumerate(variables_of_entries(entries))}
    named = [position[entry] if isinstance(entry, str) else entry for entry in entries]
    return json.dumps(named, separators=(",", ":"))


def _store(entries: Sequence[Any]) -> str:
    program = TapeProgram(len(variables_of_entries(entries)))
    result = program.expression(
        expression_of_entries(entries), lambda name: program.input(int(name))
    )
    return base64.b64encode(program.finish([result]).to_bytes()).decode()
