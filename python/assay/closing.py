"""Things that end with a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that is its own value and is closed at the end."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds; closing again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
