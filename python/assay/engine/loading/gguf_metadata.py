"""The key-value metadata of a GGUF file, with the type of each value checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from assay._native import GgufFile, StoredTexts
from assay.errors import InputError

_Value = TypeVar("_Value", int, float, str, bool)


class GgufMetadata:
    """The metadata of a file; reading a value checks its type."""

    def __init__(self, where: str, file: GgufFile) -> None:
        self.where = where
        self._file = file
        self._keys = frozenset(file.keys())

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def value(self, key: str) -> object:
        """The value of a key that is there, of any type."""
        return self._any(key)

    def get(self, key: str, kind: type[_Value]) -> _Value | None:
        """The value of an optional key, or None."""
        return self.require(key, kind) if key in self._keys else None

    def require(self, key: str, kind: type[_Value]) -> _Value:
        """The value of a required key."""
        value: Any = self._any(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # bool is a subclass of int.
        if type(value) is not kind:
            raise self._wrong(key, kind.__name__, value)
        return value

    def items(self, key: str, kind: type[_Value]) -> list[_Value]:
        """The list of a required key, with elements of one type."""
        value: Any = self._any(key)
        if not isinstance(value, list) or (value and type(value[0]) is not kind):
            raise self._wrong(key, f"a list of {kind.__name__}", value)
        return value

    def count(self, key: str) -> int:
        """The length of a key's list."""
        count = self._file.count(key)
        if count is None:
            raise self._wrong(key, "a list", self._any(key))
        return count

    def texts(self, key: str) -> StoredTexts:
        """The strings of a list, which stay in the mapped file."""
        self.count(key)
        return self._file.texts(key)

    def _any(self, key: str) -> object:
        if key not in self._keys:
            raise InputError(
                f'{self.where}: expected the metadata key "{key}", got none',
                "the model cannot be read without it",
            )
        return self._file.value(key)

    def _wrong(self, key: str, expected: str, value: object) -> InputError:
        got = f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:80]
        return InputError(f"{self.where}: expected {key} as {expected}, got {got}")
