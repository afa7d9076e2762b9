"""How errors name what a caller gave: as an option on the command line, as an argument in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_ON_COMMAND_LINE: Final = ContextVar("on_command_line", default=False)
_ARGUMENTS: Final = {"set": "assign", "with": "includes", "batch": "sequences"}
"""Arguments that are named otherwise than their options."""


@contextmanager
def command_line() -> Iterator[None]:
    """A block whose errors are read by someone who gave options."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def option(flag: str) -> str:
    """An option, or in Python the argument that it stands for.

    >>> option("--with")
    'includes'
    """
    if _ON_COMMAND_LINE.get():
        return flag
    name = flag.removeprefix("--").replace("-", "_")
    return _ARGUMENTS.get(name, name)


def given(flag: str, value: object = None) -> str:
    """An option with a value, or in Python the argument with it; without a value a switch.

    >>> given("--tensor", 2), given("--allow-conflicts")
    ('tensor=2', 'allow_conflicts=True')
    """
    if _ON_COMMAND_LINE.get():
        return flag if value is None else f"{flag} {value}"
    return f"{option(flag)}={True if value is None else value}"


def given_pair(flag: str, name: str, text: str) -> str:
    """An option that gives a name a value, or in Python the argument.

    >>> given_pair("--set", "gpu.power", "5 W/GPU")
    'assign={"gpu.power": "5 W/GPU"}'
    """
    if _ON_COMMAND_LINE.get():
        return f'{flag} {name}="{text}"'
    return f'{option(flag)}={{"{name}": "{text}"}}'
