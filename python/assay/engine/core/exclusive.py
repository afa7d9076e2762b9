"""One thread at a time inside an engine: the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class EngineLock:
    """A re-entrant lock that can tell a thread at rest from one inside a call.

    The second matters to a stream that is left early: the garbage collector may close it in the
    middle of a step of the same thread, which a re-entrant lock alone would let in.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> EngineLock:
        self._lock.acquire()
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()

    @property
    def is_outermost(self) -> bool:
        """Whether the call that holds the lock was not made by another one."""
        return self._depth == 1

    @contextmanager
    def if_free(self) -> Iterator[bool]:
        """Enter unless any thread is inside, this one included; yields whether it did."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            if self._depth:
                yield False
                return
            with self:
                yield True
        finally:
            self._lock.release()


class Locked(Protocol):
    """An object whose methods wait for each other."""

    _lock: EngineLock

    def _abort_abandoned(self) -> None:
        """Runs first in every outermost call."""


S = TypeVar("S", bound=Locked)


def exclusive(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method wait until no other thread is inside the object."""

    @wraps(method)
    def waiting(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            if self._lock.is_outermost:
                self._abort_abandoned()
            return method(self, *args, **kwargs)

    return waiting
