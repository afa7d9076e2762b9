"""What a `with` block makes current: a stream, a device, a tenant."""

from __future__ import annotations

import contextvars
from typing import Any, ClassVar, Self


class Entered:
    """Objects that are current inside their `with` block, in this thread or task alone.

    Each kind has a stack of its own, innermost last.
    """

    __slots__ = ()
    _stack: ClassVar[contextvars.ContextVar[tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        """Give a kind its stack; classes made from it share it."""
        super().__init_subclass__()
        if Entered in cls.__bases__:
            cls._stack = contextvars.ContextVar(f"assay entered {cls.__name__}", default=())

    @classmethod
    def entered(cls) -> tuple[Self, ...]:
        """Those whose blocks we are in."""
        return cls._stack.get()

    def __enter__(self) -> Self:
        self._stack.set((*self._stack.get(), self))
        return self

    def __exit__(self, *ended: object) -> None:
        self._stack.set(self._stack.get()[:-1])
