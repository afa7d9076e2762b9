"""A rule that `verify` applies to a registry, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.model.registry import Registry

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """How many items a rule checked, and its findings.

    Findings violate the rule; notes do not. `skipped` says why the rule was not applied.
    """

    count: int
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    skipped: str = ""


class Rule(NamedTuple):
    """One item to verify."""

    name: str
    meaning: str
    apply: Callable[[Registry], RuleOutcome]


def collect(check: Callable[[Item], None], items: Iterable[Item]) -> list[str]:
    """Run a check that raises on every item and gather its messages."""
    findings = []
    for item in items:
        try:
            check(item)
        except AssayError as error:
            findings.append(f"{error.message} ({error.hint})" if error.hint else error.message)
    return findings
