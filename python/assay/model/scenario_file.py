"""Reading scenario files: includes, values with their sources, variants and targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.files import read_toml
from assay.model.inputs import read_inputs
from assay.model.preset import Preset
from assay.model.values import read_value

if TYPE_CHECKING:
    from assay.model.registry import Registry

_SECTIONS = (
    "name",
    "description",
    "include",
    "drop",
    "defaults",
    "values",
    "variants",
    "targets",
)


def read_scenario(path: Path, registry: Registry) -> Preset:
    """Read a scenario file (TOML); names and units of its values are checked at once."""
    data = read_toml("scenario file", path)
    try:
        return _preset(path, data, registry)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"scenario file {path.name} is malformed: {error!r}",
            "it needs name, [values] with a source each, and [[targets]] with label and variable",
        ) from None


def _preset(path: Path, data: dict[str, Any], registry: Registry) -> Preset:
    name = path.stem
    if strangers := [key for key in data if key not in _SECTIONS]:
        raise InputError(
            f'scenario {name}: unknown entry "{strangers[0]}"',
            f"a scenario has: {', '.join(_SECTIONS)}",
        )
    defaults = data.get("defaults", {})
    own = {
        variable: read_value(f"scenario {name}: {variable}", item, defaults)
        for variable, item in data.get("values", {}).items()
    }
    targets = [(t["label"], t["variable"]) for t in data.get("targets", ())]
    preset = Preset(
        name=_text("name", data.get("name", name)),
        description=_text("description", data.get("description", "")),
        registry=registry,
        assignments=own,
        variants={n: _text(f"variant of {n}", v) for n, v in data.get("variants", {}).items()},
        targets=tuple((_text("label", label), _text("target", v)) for label, v in targets),
        own=frozenset(own),
    )
    if "include" in data or "drop" in data:
        preset = _with_includes(preset, path, data)
    read_inputs(registry, preset.given)
    return preset


def _with_includes(preset: Preset, path: Path, data: dict[str, Any]) -> Preset:
    from assay.catalog.includes import include, merge

    paths = _texts("include", data.get("include", []))
    dropped = _texts("drop", data.get("drop", []))
    parts = [include(item, preset.registry, path.parent) for item in paths]
    known = {name for part in parts for name in part.values}
    for name in dropped:
        if name not in known:
            raise InputError(
                f"scenario {preset.name}: drop names {name}, which no include gives",
                "leave it out of drop",
            )
    parts = [
        replace(part, values={n: v for n, v in part.values.items() if n not in dropped})
        for part in parts
    ]
    values, clashes = merge(parts)
    remarks = [note for part in parts for note in part.notes]
    variants: dict[str, str] = {}
    for part in parts:
        variants |= part.variants
    return replace(
        preset,
        assignments={**values, **preset.assignments},
        variants={**variants, **preset.variants},
        included=tuple(parts),
        notes=(*remarks, *clashes),
    )


def _texts(what: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise InputError(f"scenario: expected a list of texts as {what}, got {value!r}")
    return [_text(what, item) for item in value]


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"scenario: expected a text as {what}, got {value!r}")
    return value
