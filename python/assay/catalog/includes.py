"""What a scenario includes by name: entries of the catalog, models, and fitted constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assay.catalog import entries
from assay.catalog.entries import Entry
from assay.errors import AssayError, InputError, unknown_name
from assay.model.values import Value

if TYPE_CHECKING:
    from assay.catalog.models import Model
    from assay.model.registry import Registry

_NINETY = 1.6448536269514722
"""Standard deviations of a normal distribution on either side that hold nine tenths of it."""


@dataclass(frozen=True)
class Included:
    """What one include gives: values by variable, remarks on them, and relations they call for."""

    path: str
    values: Mapping[str, Value]
    notes: tuple[str, ...] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    """Entries of one group stand for each other."""


def include(path: str, registry: Registry, folder: Path | None = None) -> Included:
    """Find one include: `group/name`, or a JSON file in the catalog's format.

    An accelerator brings its fitted constants along; `engines/name` gives those of a serving engine.
    """
    if path.endswith(".json"):
        file = Path(path) if folder is None else folder / path
        entry = entries.from_file(file)
        if "calibration" in entry.facts:
            return _calibrated(entry, path, registry)
        return _of_entry(entry, path)
    group, separator, name = path.partition("/")
    if not separator or not name:
        raise InputError(f'malformed include "{path}": expected group/name', _groups_hint())
    if group == "models":
        from assay.catalog import models

        return of_model(models.find(name))
    if group == "accelerators":
        from assay.catalog import accelerators

        entry = accelerators.find(name)
        if "calibration" in entry.facts:
            return _calibrated(entry, entry.path, registry)
        return _of_entry(entry, entry.path)
    if group == "engines":
        return _engine(name, registry)
    if group not in entries.groups():
        error = unknown_name("catalog group", group, known_groups())
        error.hint = error.hint or _groups_hint()
        raise error
    entry = entries.find(group, name, f"entry of {group}")
    return _of_entry(entry, entry.path)


def _of_entry(entry: Entry, path: str) -> Included:
    variants = dict(entry.facts.get("variants", {}))
    return Included(path, entry.values, variants=variants, group=entry.group)


def known_groups() -> list[str]:
    """Groups that can be included from."""
    return sorted([*entries.groups(), "engines"])


def of_model(model: Model) -> Included:
    """What including a model gives."""
    return Included(f"models/{model.name}", model.entry.values, model.notes, group="models")


def _calibrated(entry: Entry, path: str, registry: Registry) -> Included:
    """An accelerator with the fitted constants that its entry names."""
    from assay.catalog import constants

    calibration = constants.find(str(entry.facts["calibration"]))
    fitted = _from_base(
        calibration.values,
        f"fitted constants of {calibration.lender}",
        registry,
        calibration.log_standard_errors,
    )
    values = {**fitted, **entry.values}
    return Included(path, values, tuple(calibration.notes), group=entry.group)


def _engine(name: str, registry: Registry) -> Included:
    from assay.catalog import engines

    values = _from_base(engines.given(name), f"constants of the engine {name}", registry)
    return Included(f"engines/{name}", values, group="engines")


def _from_base(
    values: Mapping[str, float],
    source: str,
    registry: Registry,
    log_standard_errors: Mapping[str, float] | None = None,
) -> dict[str, Value]:
    """Fitted values in base units as sourced ones.

    What a relation gives as well is a check on it, not a constant, and is left out.
    """
    found = {}
    for name, value in values.items():
        variable = registry.variables.get(name)
        if variable is None or not variable.is_root:
            continue
        text = f"{variable.shown(value):.15g} {variable.display.text}".removesuffix(" 1")
        spread = _NINETY * (log_standard_errors or {}).get(name, 0.0)
        # A fit that ends at a bound says nothing about the other side of it.
        inside = max(variable.lower, 0.0) < value < variable.upper
        found[name] = Value(text, source, "measured", "", spread if inside else 0.0)
    return found


def merge(parts: Iterable[Included]) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Values of several includes, later ones before earlier ones, and where they disagree."""
    merged: dict[str, Value] = {}
    origin: dict[str, str] = {}
    clashes = []
    for part in parts:
        for name, value in part.values.items():
            if name in merged and not _same(merged[name].text, value.text):
                clashes.append(
                    f"{name}: {origin[name]} says {merged[name].text}, "
                    f"{part.path} says {value.text}, which holds"
                )
            merged[name] = value
            origin[name] = part.path
    return merged, tuple(clashes)


def _same(one: str, other: str) -> bool:
    from assay.model.language.quantity import parse_quantity

    try:
        return one == other or parse_quantity(one).value == parse_quantity(other).value
    except AssayError:
        return False


def _groups_hint() -> str:
    return f"groups: {', '.join(known_groups())}"
