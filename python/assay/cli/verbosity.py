"""How much the program says on stderr: `--verbose` and `--quiet` of every command.

Errors do not depend on it, nor results on stdout but for what nobody reads in full: `--verbose` prints every missing
input, and constraints that the inputs leave open in JSON.
"""

from enum import IntEnum

from assay.errors import InputError


class Verbosity(IntEnum):
    """What goes to stderr besides errors."""

    QUIET = 0
    """Nothing."""
    NORMAL = 1
    """Notes and progress."""
    VERBOSE = 2
    """Also details, such as every truncated distribution."""


_default = Verbosity.NORMAL
_chosen: Verbosity | None = None


def verbosity() -> Verbosity:
    """The verbosity of the command that runs."""
    return _default if _chosen is None else _chosen


def is_verbose() -> bool:
    """Whether details are shown."""
    return verbosity() is Verbosity.VERBOSE


def is_quiet() -> bool:
    """Whether notes and progress are hidden."""
    return verbosity() is Verbosity.QUIET


def reset() -> None:
    """Forget the choice of the command before, in a process that runs several."""
    global _default, _chosen
    _default, _chosen = Verbosity.NORMAL, None


def set_default(value: Verbosity) -> None:
    """Choose the verbosity of commands that are given neither option."""
    global _default
    _default = value


def choose(value: Verbosity) -> None:
    """Choose the verbosity; refuses to be both verbose and quiet."""
    global _chosen
    if {_chosen, value} == {Verbosity.QUIET, Verbosity.VERBOSE}:
        raise InputError("--verbose and --quiet contradict each other", "give one of them")
    _chosen = value
