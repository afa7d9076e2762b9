"""Calls that end this process at once, which the code of a claim must not make.

`sys.exit` raises, and is caught. These return to nobody: a gate that judged nothing would end with
exit code 0, as one that passed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

_ENDINGS: Final = ("_exit", "execv", "execve")
"""Of `os`, and all others of their kind lead to them."""
_process: Final = os.getpid
"""As it was before any code of others was imported, which could replace it."""


def refuse_endings() -> None:
    """Raise where one is called, from here on: code of a claim may leave a handler of the exit."""
    # The module in C behind `os` has the same name as the system.
    for module in (os, sys.modules[os.name]):
        for name in _ENDINGS:
            ending = getattr(module, name)
            if not (isinstance(ending, _Refused) and ending.process == _process()):
                setattr(module, name, _Refused(name, ending))


class _Refused:
    """Stands for a call that ends the process; children that were forked may make it."""

    def __init__(self, name: str, ending: Callable[..., NoReturn]) -> None:
        self.process = _process()
        self._name, self._ending = name, ending

    def __call__(self, *given: Any, **named: Any) -> NoReturn:
        if _process() != self.process:
            self._ending(*given, **named)
        shown = ", ".join(map(repr, given))
        raise SystemExit(
            f"os.{self._name}({shown}) would end the process before anything is judged"
        )
