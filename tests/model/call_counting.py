"""Work measured by calls, which no busy machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(function: Callable[[], object]) -> int:
    """The number of Python and C functions that a call makes."""
    calls = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
