"""Experiments that `assay causal-profile --json` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.files import read_json

if TYPE_CHECKING:
    from assay.diagnose.delays.records import DelayExperiment

_NUMBERS: Final = ("slope", "lo", "hi", "runs", "controls", "blocks")
_LISTS: Final = ("requested_ns", "doses_ns", "effects_ns")


def read_experiments(path: str | Path) -> tuple[DelayExperiment, ...]:
    """The delay experiments of a file."""
    data = read_json("experiments", Path(path))
    rows = data.get("experiments") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise InputError(
            f"{path}: expected a list of experiments, got none",
            "assay causal-profile MODEL --json writes them",
        )
    return tuple(
        _experiment(row, f"{path}: experiment {number}") for number, row in enumerate(rows)
    )


def _experiment(row: Any, where: str) -> DelayExperiment:
    from assay.diagnose.delays.records import VERDICTS, DelayExperiment

    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object")
    for name in ("name", "operation"):
        if not isinstance(row.get(name), str):
            raise InputError(f'{where}: expected text as "{name}"')
    if row.get("verdict") not in VERDICTS:
        raise InputError(f"{where}: expected a verdict of {', '.join(VERDICTS)}")
    for name in _NUMBERS:
        if not _is_number(row.get(name)):
            raise InputError(f'{where}: expected a number as "{name}"')
    for name in _LISTS:
        values = row.get(name)
        if not isinstance(values, list) or not values or not all(map(_is_number, values)):
            raise InputError(f'{where}: expected numbers as "{name}"')
    return DelayExperiment(
        row["name"],
        row["operation"],
        tuple(str(node) for node in row.get("nodes") or ()),
        float(row["slope"]),
        float(row["lo"]),
        float(row["hi"]),
        row["verdict"],
        tuple(int(value) for value in row["requested_ns"]),
        tuple(float(value) for value in row["doses_ns"]),
        tuple(float(value) for value in row["effects_ns"]),
        int(row["runs"]),
        int(row["controls"]),
        int(row["blocks"]),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
