"""SIGTERM as Ctrl-C: what a block has started is ended by it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """A block that SIGTERM ends with `KeyboardInterrupt`, so that its `with` blocks are left.

    A second SIGTERM does nothing: what is being ended takes its time. In another thread than the
    main one, where Python takes no handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
