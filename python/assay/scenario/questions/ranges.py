"""Parsers of --over: lists, grids and intervals of values.

Only the syntax is parsed here; units and bounds are checked by the sweep or the optimizer.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from assay.errors import InputError
from assay.model.language.quantity import parse_quantity
from assay.model.optimizing.choices import VARIANT_PREFIX, choosable, read_axis
from assay.model.registry import Registry
from assay.scenario.question import read_pairs
from assay.spoken_options import given_pair, option

MAX_VALUES: Final = 10_000_000
"""Most values of one axis; more would exhaust memory."""

Over = Sequence[str] | Mapping[str, str | float | Iterable[str | float]] | None
"""Axes: texts `name=values`, or values by name."""

_GRID = re.compile(r"([^:]+):([^:]+):\s*(\d{1,12})\s*(:\s*log\b)?(.*)", re.DOTALL)


def split_catalog(over: Over, groups: Collection[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Separate axes of catalog entries, such as `accelerators=h100_sxm,h200_sxm`, from variables.

    >>> split_catalog(["accelerators=h100_sxm,l4", "gpu.clock=1,2 GHz"], ["accelerators"])
    ({'accelerators': ['h100_sxm', 'l4']}, ['gpu.clock=1,2 GHz'])
    """
    catalog: dict[str, list[str]] = {}
    rest = []
    for item in _texts(over):
        name, _, text = item.partition("=")
        if name.strip() not in groups:
            rest.append(item)
            continue
        names = [part.strip() for part in text.split(",")]
        if not all(names):
            raise InputError(
                f'malformed {option("--over")} "{item}": expected {name.strip()}=ENTRY,ENTRY'
            )
        catalog.setdefault(name.strip(), []).extend(names)
    return catalog, rest


def _texts(over: Over) -> Iterator[str]:
    """Axes as texts `name=values`."""
    if not isinstance(over, Mapping):
        yield from [over] if isinstance(over, str) else over or ()
        return
    for name, values in over.items():
        listed = [values] if isinstance(values, str | int | float) else values
        yield f"{name}={','.join(map(str, listed))}"


def read_axes(over: Sequence[str] | None) -> dict[str, Any]:
    """Parse sweep axes: a list of values, or (start, stop, count, spacing), by name.

    >>> read_axes(["gpu.power=400,500 W/GPU", "gpu.clock=1:2:3 GHz"])
    {'gpu.power': ['400 W/GPU', '500 W/GPU'], 'gpu.clock': ('1 GHz', '2 GHz', 3, 'linear')}
    """
    return {name: _axis(name, text) for name, text in _pairs(over).items()}


def read_choices(registry: Registry, over: Sequence[str] | None) -> dict[str, Any]:
    """Parse free variables: a list of values, or (lower, upper), by name."""
    choices: dict[str, Any] = {}
    for name, text in _pairs(over).items():
        if name.startswith(VARIANT_PREFIX):
            choices[name] = [item.strip() for item in text.split(",")]
        elif ".." in text:
            choices[name] = tuple(_share_unit(text.split("..", 1)))
        else:
            axis = read_axis(choosable(registry, name), _axis(name, text))
            choices[name] = axis.values.tolist()
    return choices


def _pairs(over: Sequence[str] | None) -> dict[str, str]:
    pairs = read_pairs("--over", "name=values", over)
    if not pairs:
        raise InputError(
            f"nothing to vary: {option('--over')} is missing",
            f"write for example {given_pair('--over', 'training.gpus', '8,16,32 GPU')}",
        )
    return pairs


def _axis(name: str, text: str) -> list[str] | tuple[str, str, int, str]:
    if ":" not in text:
        return _share_unit(text.split(","))
    match = _GRID.fullmatch(text)
    if match is None:
        raise InputError(
            f'malformed values "{text}" for {name}: expected start:stop:count unit',
            f'write for example {name}="1:10:4 GPU", or "1:1000:4:log GPU"',
        )
    start, stop, count, is_logarithmic, unit = match.groups()
    if not 1 <= int(count) <= MAX_VALUES:
        raise InputError(f"{name}: expected 1 to {MAX_VALUES:,} values, got {int(count):,}")
    first, last = _share_unit([start, f"{stop.strip()} {unit.strip()}"])
    return first, last, int(count), "log" if is_logarithmic else "linear"


def _share_unit(texts: Sequence[str]) -> list[str]:
    """Append the unit of the last text to texts without a unit."""
    if texts[-1].strip()[:1].isalpha():  # names of cases
        return [text.strip() for text in texts]
    unit = parse_quantity(texts[-1]).unit.text
    return [
        f"{text.strip()} {unit}" if parse_quantity(text).unit.text == "1" != unit else text.strip()
        for text in texts
    ]
