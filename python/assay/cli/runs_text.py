"""Texts that the commands about runs share."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run: its id or the start of it, its folder, or latest."),
]


def when(at: float | None) -> str:
    """A time as people read it, in UTC.

    >>> when(0), when(None)
    ('1970-01-01 00:00:00', '-')
    """
    if at is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def figure(found: Mapping[str, float] | None, unit: str) -> str:
    """A figure with its interval.

    >>> figure({"value": 1.5, "lo": 1.4, "hi": 1.6}, "x")
    '1.5x (1.4 to 1.6)'
    """
    if not found or found.get("value") is None:
        return "-"
    space = "" if unit == "x" else " "
    interval = ""
    if found.get("lo") is not None and found.get("hi") is not None:
        interval = f" ({found['lo']:.4g} to {found['hi']:.4g})"
    return f"{found['value']:.4g}{space}{unit}{interval}".rstrip()


def setting(value: Any) -> str:
    """The value of a knob.

    >>> setting(None), setting(True), setting("q8_0")
    ('-', 'true', 'q8_0')
    """
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
