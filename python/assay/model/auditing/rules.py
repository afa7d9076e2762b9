"""A rule that `verify` applies to a registry, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.model.registry import Registry

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """How many things a rule looked at, and what it found.

    Findings are against the rule, notes are not. `skipped` says why the rule was not applied.
    """

    count: int
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    skipped: str = ""


class Rule(NamedTuple):
    """One thing to verify."""

    name: str
    meaning: str
    look: Callable[[Registry], RuleOutcome]


def collect(check: Callable[[Thing], None], things: Iterable[Thing]) -> list[str]:
    """Run a check that raises on every thing and gather its messages."""
    findings = []
    for thing in things:
        try:
            check(thing)
        except AssayError as error:
            findings.append(f"{error.message} ({error.hint})" if error.hint else error.message)
    return findings
