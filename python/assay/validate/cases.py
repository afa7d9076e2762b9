"""Published cases: inputs, observed figures, and source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import catalog
from assay.errors import InputError
from assay.files import read_json
from assay.validate.figure_records import cases_data, is_records

KINDS = {
    "kernels": "hardware", "training": "training", "inference": "inference", "figures": "figure",
}  # fmt: skip
"""Kinds of cases: the name for `--suite`, and the `kind` in the files."""

PUBLISHED = ("published.json", "published_2.json", "figures.json")
"""Files of cases in `catalog/cases`, later ones from other sources; the third has a figure a record."""

_TIERS = ("A", "B", "C")


@dataclass(frozen=True)
class Case:
    """One published figure, or several of one run."""

    id: str
    kind: str
    inputs: dict[str, Any]
    observed: dict[str, Any]
    source: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
    tier: str = "B"
    units: dict[str, str] = field(default_factory=dict)
    """Units of observed figures whose names do not say them."""

    @property
    def suite(self) -> str:
        """Cases published together: the id up to its first hyphen."""
        return self.id.partition("-")[0]


def published_cases() -> tuple[Path, ...]:
    """The files of cases that ship with Assay."""
    folder = Path(catalog.__file__).parent / "cases"
    return tuple(folder / name for name in PUBLISHED)


def read_cases(paths: Path | Sequence[Path]) -> list[Case]:
    """Read one or more files of cases; raises `InputError` that names what is malformed."""
    files = [paths] if isinstance(paths, Path) else paths
    cases = [case for path in files for case in _file(path)]
    _check_unique(", ".join(path.name for path in files), cases)
    return cases


def _file(path: Path) -> list[Case]:
    data = read_json("cases file", path)
    if not isinstance(data, list):
        raise InputError(
            f"cases file {path.name}: expected a list of cases, got {type(data).__name__}",
            "each case is an object with id, kind, inputs, observed, source and tier",
        )
    if is_records(data):
        data = cases_data(path.name, data)
    return [_case(path.name, position, item) for position, item in enumerate(data)]


def _case(file: str, position: int, item: Any) -> Case:
    if not isinstance(item, dict):
        raise InputError(f"cases file {file}: entry {position} is not an object")
    where = f"cases file {file}: case {item.get('id', position)}"
    for name, kind in (("id", str), ("kind", str), ("inputs", dict), ("observed", dict)):
        if not isinstance(item.get(name), kind):
            raise InputError(f'{where}: expected a {kind.__name__} as "{name}"')
    if item["kind"] not in KINDS.values():
        raise InputError(
            f'{where}: unknown kind "{item["kind"]}"', f"kinds: {', '.join(KINDS.values())}"
        )
    tier = item.get("tier", "B")
    if tier not in _TIERS:
        raise InputError(f'{where}: unknown tier "{tier}"', f"tiers: {', '.join(_TIERS)}")
    source = item.get("source")
    return Case(
        id=item["id"], kind=item["kind"], inputs=item["inputs"], observed=item["observed"],
        source=source if isinstance(source, dict) else {"title": str(source or "")},
        notes=str(item.get("notes") or ""), tier=tier, units=item.get("units") or {},
    )  # fmt: skip


def _check_unique(file: str, cases: Sequence[Case]) -> None:
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise InputError(f"cases file {file}: two cases are called {case.id}")
        seen.add(case.id)
