"""The stack of changes that are made to an engine, and what undoes them, as the journal has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import data_of
from assay.improve.journal.chain import Record
from assay.load.workloads.measurement import Setting

TRIAL_OVER: Final = "the trial is over"
"""Why most changes are taken back."""


@dataclass(frozen=True, slots=True)
class JournaledChange:
    """A change of settings with what takes it back, recorded before it is made."""

    number: int
    changes: Mapping[str, Setting]
    inverse: Mapping[str, Setting]
    """The values of the same knobs before, read back from the engine."""
    before: str
    """Hash of the whole configuration before the change."""
    after: str
    """Hash of the configuration that is meant."""

    def to_data(self) -> dict[str, Any]:
        """The data of the record `intend`."""
        return {"change": self.number, **data_of(self, "changes inverse before after")}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> JournaledChange:
        """The change of a record `intend`."""
        return cls(data["change"], data["changes"], data["inverse"], data["before"], data["after"])


def outstanding(records: Iterable[Record]) -> list[JournaledChange]:
    """Changes that are in force or may be, oldest first.

    A change that was intended counts until the journal says that it was not made or that it was
    undone: nobody knows how far a process got that died in between.
    """
    stack: dict[int, JournaledChange] = {}
    for record in records:
        data = record.data
        if record.kind == "intend":
            stack[data["change"]] = JournaledChange.of(data)
        elif record.kind == "applied":
            for number in data.get("undoes", ()):
                stack.pop(number, None)
        elif record.kind == "safe":
            # From here on this is the configuration to come back to.
            stack.clear()
        elif record.kind == "failed" and data.get("restored"):
            stack.pop(data["change"], None)
        elif record.kind == "reverted":
            for number in data["changes"]:
                stack.pop(number, None)
    return list(stack.values())


def composed_inverse(stack: Sequence[JournaledChange]) -> dict[str, Setting]:
    """One change that does what undoing a stack in reverse order does.

    >>> first = JournaledChange(0, {"a": 2, "b": 1}, {"a": 1, "b": 0}, "", "")
    >>> second = JournaledChange(1, {"a": 3}, {"a": 2}, "", "")
    >>> composed_inverse([first, second])
    {'a': 1, 'b': 0}
    """
    inverse: dict[str, Setting] = {}
    for change in reversed(stack):
        inverse.update(change.inverse)
    return inverse


def undone_by(stack: Sequence[JournaledChange], configuration: str) -> list[JournaledChange]:
    """The changes at the top of a stack that reaching a configuration takes back.

    An experiment goes to and fro between two configurations. Going back to one that was left
    before is an undo, so that the stack is as deep as the configuration differs from the first.
    """
    for place, change in enumerate(stack):
        if change.before == configuration:
            return list(stack[place:])
    return []
