"""A table whose items are built when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

Item = TypeVar("Item")


class LazyTable(Mapping[str, Item]):
    """Items by name, each built from its source on first use.

    A question needs a few hundred of the thousands of declarations of a registry.
    """

    def __init__(self, sources: Mapping[str, Any], build: Callable[[Any], Item]) -> None:
        """Take the sources by name and the function that builds an item from one."""
        self._sources = sources
        self._build = build
        self._items: dict[str, Item] = {}

    def __getitem__(self, name: str) -> Item:
        item = self._items.get(name)
        if item is None:
            # Two threads may both build it: all get the item that was stored first.
            item = self._items.setdefault(name, self._build(self._sources[name]))
        return item

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
