"""Fault injection: every step that a crash can cut short has a name, and a test can crash there.

`ASSAY_FAULT=POINT=ACTION[@N]`, several separated by commas, makes the N-th passage (the first unless
said) of a point misbehave: `kill` ends the process with SIGKILL, `hang` sleeps for good, `full` raises
what a full disk raises, `error` an unexpected exception. Without the variable a point costs a
dictionary look-up. `reached` counts the passages, so that a test can tell that no point is forgotten.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections import Counter
from typing import Final

from assay.errors import InputError

VARIABLE: Final = "ASSAY_FAULT"
ACTIONS: Final = ("kill", "hang", "full", "error")

reached: Final[Counter[str]] = Counter()
"""How often each point was passed, while the variable is set."""


class InjectedFaultError(RuntimeError):
    """An exception that nobody expects, raised by the action `error`."""


def fault_point(name: str) -> None:
    """A place where a test may make the process misbehave."""
    if (text := os.environ.get(VARIABLE)) is None:
        return
    reached[name] += 1
    for action, number in _faults(text).get(name, ()):
        if number == reached[name]:
            _misbehave(action, name)


def _faults(text: str) -> dict[str, list[tuple[str, int]]]:
    faults: dict[str, list[tuple[str, int]]] = {}
    for part in filter(None, text.split(",")):
        point, _, rest = part.rpartition("=")
        action, _, number = rest.partition("@")
        if not point or action not in ACTIONS or (number and not number.isdigit()):
            raise InputError(
                f"{VARIABLE} cannot be read: expected POINT=ACTION@N with an action of "
                f"{', '.join(ACTIONS)}, got {part}"
            )
        faults.setdefault(point, []).append((action, int(number or 1)))
    return faults


def _misbehave(action: str, name: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "hang":
        while True:
            time.sleep(3600)
    if action == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise InjectedFaultError(f"injected at {name}")
