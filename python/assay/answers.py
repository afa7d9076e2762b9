"""What a question is answered with: the same for the command line, the pages and Python.

A function for each question a user can ask is in the package that owns it and returns an `Answer`.
The command line adds options and text, the pages routes; both send what `json_text` writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from assay.errors import AssayError

REPR_CHARACTERS: Final = 200
"""Most characters of a headline in what `repr` gives."""

Progress = Callable[[str], None]
"""Takes what a long question is doing now; functions print nothing themselves."""


def silent(text: str) -> None:
    """The progress that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a question; subclasses hold what was found.

    `notes` say what a reader must know beside the result; `problem` is an error that leaves a
    result to show, such as missing inputs, and sets the exit code of a command.
    """

    notes: Sequence[str] = ()
    problem: AssayError | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the short `repr`: `dataclass` replaces it only where a class has none of its own."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Answer.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The class and the headline: a prompt shows it, and the fields may be megabytes."""
        return short_repr(type(self), self.headline(), self.problem)

    def headline(self) -> str:
        """The result in one line; empty where its data say as much."""
        return ""

    def _repr_html_(self) -> str:
        from assay.notebook import card, title_of

        data, *further = (finite(part) for part in self.view())
        title = title_of(type(self))
        return card(title, self.headline(), data, self.notes, self.problem, further)

    def view(self) -> list[Any]:
        """What a notebook shows below the headline, part by part: what `--json` prints, if not otherwise."""
        return [self.to_json()]

    def to_json(self) -> Any:
        """The result as JSON data, without the notes: its own fields in order, if not otherwise."""
        own = (field.name for field in fields(self) if field.name not in ("notes", "problem"))
        return data_of(self, " ".join(own))


def short_repr(kind: type, headline: str, problem: AssayError | None = None) -> str:
    """The name of a class, then what an object of it comes to, in one line.

    >>> short_repr(int, "two and two")
    '<int: two and two>'
    """
    said = [headline] if headline else []
    if problem is not None and problem.message not in headline:
        said.append(f"problem: {problem.message}")
    line = " ".join("; ".join(said).split())
    if len(line) > REPR_CHARACTERS:
        line = line[: REPR_CHARACTERS - 4] + " ..."
    return f"<{kind.__name__}: {line}>" if line else f"<{kind.__name__}>"


def data_of(record: Any, names: str = "") -> dict[str, Any]:
    """Attributes of a record as plain data: those named, by default its fields, in order."""
    if not names:
        known = record._fields if hasattr(record, "_fields") else [f.name for f in fields(record)]
        return data_of(record, " ".join(known))
    return {name: plain_data(getattr(record, name)) for name in names.split()}


def plain_data(value: Any) -> Any:
    """A value as lists, dictionaries and what they hold; records say by `to_data` what they are."""
    if hasattr(value, "to_data"):
        return value.to_data()
    if isinstance(value, Mapping):
        return {key: plain_data(item) for key, item in value.items()}
    if is_dataclass(value) or hasattr(value, "_fields"):
        return data_of(value)
    return [plain_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def json_text(answer: Answer) -> str:
    """What `--json --verbose` prints and the pages receive: an object gets its notes as an entry."""
    data = answer.to_json()
    if answer.notes and isinstance(data, dict) and "notes" not in data:
        data = {**data, "notes": list(answer.notes)}
    return to_json(data) + "\n"


def to_json(data: Any) -> str:
    """Data as JSON text; NaN and infinities become null."""
    return json.dumps(finite(data), indent=2, allow_nan=False)


def finite(data: Any) -> Any:
    """The data with null for NaN and infinities, which JSON lacks."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return data
