"""A JSON array of objects, or JSON lines, one object at a time: recordings of gigabytes fit."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError
from assay.load.workloads.readers.recorded import MAX_LINE, as_object, json_objects, opened

_CHUNK: Final = 1 << 20
_SPACE: Final = " \t\r\n"


def rows_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects of a file whose first character is a bracket or a brace."""
    with opened(path) as file:
        head = file.read(_CHUNK).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"["):
        return _items(path)
    return (row for _, row in json_objects(path))


def _items(path: Path) -> Iterator[Mapping[str, Any]]:
    with opened(path) as file:
        buffer = _Buffer(file, path)
        if buffer.next_character() != "[":
            raise InputError(f"{path}: expected a JSON array")
        buffer.skip()
        number = 0
        while (character := buffer.next_character()) != "]":
            if number:
                if character != ",":
                    raise InputError(f"{path}: expected a comma or the end after item {number}")
                buffer.skip()
            number += 1
            yield as_object(buffer.value(number), f"{path}, item {number}")


class _Buffer:
    """The part of a file that is being parsed."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file = io.TextIOWrapper(file, encoding="utf-8-sig")
        self._path = path
        self._text = ""
        self._position = 0
        self._decoder = json.JSONDecoder()

    def next_character(self) -> str:
        """The next character that is not space."""
        while True:
            while self._position < len(self._text):
                if self._text[self._position] not in _SPACE:
                    return self._text[self._position]
                self._position += 1
            if not self._more(_CHUNK):
                raise InputError(
                    f"{self._path}: expected the end of an array, got a file cut short"
                )

    def skip(self) -> None:
        """Go past a character."""
        self._position += 1

    def value(self, number: int) -> Any:
        """The next JSON value."""
        self.next_character()
        where = f"{self._path}, item {number}"
        while True:
            try:
                value, self._position = self._decoder.raw_decode(self._text, self._position)
                return value
            except RecursionError:
                raise InputError(f"{where}: expected JSON, got values nested too deep") from None
            except ValueError as error:
                # It may be cut off where reading stopped. Reading as much again each time keeps
                # the time linear in the size of an item.
                pending = len(self._text) - self._position
                if pending > MAX_LINE or not self._more(max(_CHUNK, pending)):
                    reason = str(error)[:200]
                    raise InputError(f"{where}: expected JSON, got: {reason}") from None

    def _more(self, size: int) -> bool:
        """Read on; whether there was more."""
        try:
            text = self._file.read(size)
        except UnicodeDecodeError as error:
            raise InputError(f"{self._path}: expected UTF-8, got: {error}") from None
        self._text = self._text[self._position :] + text
        self._position = 0
        return bool(text)
