"""A value that is made once, by whoever asks first or ahead of time in the background."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Makes a value when it is first asked for; what goes wrong is raised to everyone who asks.

    An interrupt is nobody's fault: whoever asks next makes the value.

    >>> numbers = Once(lambda: [1, 2])
    >>> numbers.get() is numbers.get()
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        """Remember how the value is made."""
        self._make = make
        self._lock = Lock()
        self._made: list[T] = []
        self._error: Exception | None = None

    @property
    def made(self) -> bool:
        """Whether the value is there."""
        return bool(self._made)

    def get(self) -> T:
        """The value; others who ask meanwhile wait for it."""
        if not self._made:
            with self._lock:
                if not self._made and self._error is None:
                    self._attempt()
        if self._error is not None:
            raise self._error
        return self._made[0]

    def begin(self) -> None:
        """Begin to make the value in a thread of its own."""
        # No daemon: the end of the interpreter must not cut it off inside a library.
        Thread(target=self._run, name="once").start()

    def _run(self) -> None:
        with self._lock:
            if not self._made and self._error is None:
                self._attempt()

    def _attempt(self) -> None:
        try:
            self._made.append(self._make())
        except Exception as error:
            self._error = error
