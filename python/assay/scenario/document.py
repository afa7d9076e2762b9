"""Scenario files: includes, values with their sources, variants and targets, as TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from assay.catalog.sourced_value import SourcedValue, read_value
from assay.errors import InputError
from assay.files import read_toml
from assay.model.uncertainty.correlation import Correlations, read_correlation

_SECTIONS = (
    "name",
    "description",
    "include",
    "drop",
    "defaults",
    "values",
    "correlations",
    "variants",
    "targets",
)


class ScenarioDocument(NamedTuple):
    """A scenario file as written: its includes are paths and `drop` names values they give."""

    name: str
    description: str
    include: tuple[str, ...]
    drop: tuple[str, ...]
    values: dict[str, SourcedValue]
    variants: dict[str, str]
    targets: tuple[tuple[str, str], ...]
    correlations: Correlations


def read_document(path: Path) -> ScenarioDocument:
    """Read a scenario file; sections and types are checked, names of variables are not."""
    data = read_toml("scenario file", path)
    try:
        return _document(path.stem, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"scenario file {path.name} is malformed: {error!r}",
            "it needs name, [values] with a source each, and [[targets]] with label and variable",
        ) from None


def _document(name: str, data: dict[str, Any]) -> ScenarioDocument:
    if unknown := [key for key in data if key not in _SECTIONS]:
        raise InputError(
            f'scenario {name}: unknown entry "{unknown[0]}"',
            f"a scenario has: {', '.join(_SECTIONS)}",
        )
    defaults = data.get("defaults", {})
    values = {
        variable: read_value(f"scenario {name}: {variable}", item, defaults)
        for variable, item in data.get("values", {}).items()
    }
    targets = [(t["label"], t["variable"]) for t in data.get("targets", ())]
    return ScenarioDocument(
        name=_text("name", data.get("name", name)),
        description=_text("description", data.get("description", "")),
        include=_texts("include", data.get("include", [])),
        drop=_texts("drop", data.get("drop", [])),
        values=values,
        variants={n: _text(f"variant of {n}", v) for n, v in data.get("variants", {}).items()},
        targets=tuple((_text("label", label), _text("target", v)) for label, v in targets),
        correlations=dict(
            read_correlation(f"{names}={number}", f"scenario {name}: correlation")
            for names, number in data.get("correlations", {}).items()
        ),
    )


def _texts(what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError(f"scenario: expected a list of texts as {what}, got {value!r}")
    return tuple(_text(what, item) for item in value)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"scenario: expected a text as {what}, got {value!r}")
    return value
