"""A task for tests of parts: squares, which can wait, fail or lose their process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.errors import InputError

TASK = "few_parts:squares"


def squares(shared: Any) -> Callable[[Any], Any]:
    """Squares; `bad` is refused, and the first that touches `once` kills its process."""

    def square(part: int) -> float:
        if part == shared.get("bad"):
            raise InputError(f"{part} is bad", "take another")
        if part == shared.get("kills"):
            marker = Path(shared["once"])
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        with Path(shared["log"]).open("a") as log:
            log.write(f"{part}\n")
        return 0.1 * part**2

    return square
