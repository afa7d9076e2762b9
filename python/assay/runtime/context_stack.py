"""The stack behind `with stream:`, `with device:` and `with tenant:`."""

from __future__ import annotations

import contextvars
from typing import Any, ClassVar, Self


class ContextStack:
    """Base of objects that are current inside their `with` block, per thread or asyncio task.

    Each direct subclass has its own stack, innermost last.
    """

    __slots__ = ()
    _stack: ClassVar[contextvars.ContextVar[tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        """Create the stack of a direct subclass; further subclasses share it."""
        super().__init_subclass__()
        if ContextStack in cls.__bases__:
            cls._stack = contextvars.ContextVar(f"assay active {cls.__name__}", default=())

    @classmethod
    def active(cls) -> tuple[Self, ...]:
        """The objects whose `with` blocks are active, innermost last."""
        return cls._stack.get()

    def __enter__(self) -> Self:
        self._stack.set((*self._stack.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.set(self._stack.get()[:-1])
