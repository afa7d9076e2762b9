"""Values along an axis, as texts name them: settings of a sweep, arrival rates of a load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from assay.errors import InputError, unknown_name
from assay.planner.sweep import SETTINGS

MOST_RATES: Final = 1000
_AXES: Final = {"batch": "sequences", "dtype": "weight_dtype", "gpu": "hardware"}
"""Names of options whose setting is called otherwise."""
_WORDS: Final = ("weight_dtype", "kv_dtype", "engine")


def read_axes(gpu: str, texts: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Hardware and values by setting of all --sweep options, such as batch=1,2,4."""
    machines = [gpu]
    over: dict[str, list[Any]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        setting = _AXES.get(name.strip(), name.strip().replace("-", "_"))
        if not separator or not values.strip():
            raise InputError(
                f'malformed --sweep "{text[:80]}": expected name=values',
                "write for example --sweep batch=1,2,4,8 or --sweep context=1024:8192:1024",
            )
        if setting not in ("hardware", *SETTINGS):
            raise unknown_name("setting of --sweep", name.strip(), (*_AXES, *SETTINGS))
        if setting == "hardware":
            machines = [value.strip() for value in values.split(",")]
        elif setting in _WORDS:
            over[setting] = [value.strip() for value in values.split(",")]
        elif setting == "cuda_graphs":
            over[setting] = [_is_yes(value) for value in values.split(",")]
        else:
            over[setting] = _numbers(name, values)
    return machines, over


def _is_yes(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.strip().lower() not in known:
        raise InputError(f'--sweep cuda_graphs: expected true or false, got "{text[:40]}"')
    return known[text.strip().lower()]


def _numbers(name: str, text: str) -> list[Any]:
    """Numbers of a list, or of start:stop:step with both ends."""
    try:
        if ":" in text:
            start, stop, step = (int(part) for part in text.split(":"))
            if step < 1 or stop < start or (stop - start) // step > 10_000_000:
                raise ValueError
            return list(range(start, stop + 1, step))
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f'--sweep {name}: expected numbers such as 1,2,4 or 1:256:1, got "{text[:60]}"'
        ) from None


def read_rates(text: str) -> list[float]:
    """Arrival rates of a list, or of start:stop:step with both ends."""
    try:
        if ":" in text:
            start, stop, step = (float(part) for part in text.split(":"))
            if not (step > 0 and stop >= start and (stop - start) / step < MOST_RATES):
                raise ValueError
            rates = [start + step * index for index in range(round((stop - start) // step) + 1)]
        else:
            rates = [float(part) for part in text.split(",")]
        if not all(math.isfinite(rate) and rate > 0 for rate in rates) or len(rates) > MOST_RATES:
            raise ValueError
    except ValueError:
        raise InputError(
            f'--rates: expected requests per second such as 1,2,4 or 2:20:2, got "{text[:60]}"'
        ) from None
    return rates
