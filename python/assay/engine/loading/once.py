"""A value that is computed once: on first use, or ahead of time in a background thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Computes a value on first use; if that fails, every use raises the error.

    After a `KeyboardInterrupt` the next use computes it again.

    >>> numbers = Once(lambda: [1, 2])
    >>> numbers.get() is numbers.get()
    True
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        """Store the function that computes the value."""
        self._compute = compute
        self._lock = Lock()
        self._value: list[T] = []
        self._error: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the value is computed."""
        return bool(self._value)

    def get(self) -> T:
        """The value; other threads wait while one computes it."""
        if not self._value:
            with self._lock:
                if not self._value and self._error is None:
                    self._attempt()
        if self._error is not None:
            raise self._error
        return self._value[0]

    def begin(self) -> None:
        """Compute the value in a background thread."""
        # Not a daemon: the interpreter must not exit while it is inside a native library.
        Thread(target=self._run, name="once").start()

    def _run(self) -> None:
        with self._lock:
            if not self._value and self._error is None:
                self._attempt()

    def _attempt(self) -> None:
        try:
            self._value.append(self._compute())
        except Exception as error:
            self._error = error
