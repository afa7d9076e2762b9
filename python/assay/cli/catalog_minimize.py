"""`assay minimize` where a choice is an entry of the catalog."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.cli.catalog_sweep import Scenario
from assay.cli.output import BAD, NAME, VALUE, Canvas, Line, Part, Report, table
from assay.cli.question import Question
from assay.errors import AssayError, InfeasibleError, MissingInputsError

if TYPE_CHECKING:
    from assay.model.optimizing.optimum import Optimum


@dataclass(frozen=True)
class EntryOptimum:
    """The optimum with one combination of entries, or why there is none."""

    entries: tuple[str, ...]
    question: Question
    optimum: "Optimum | None"
    reason: str = ""


@dataclass(frozen=True)
class BestEntry:
    """The best combination of entries, and all of them."""

    groups: tuple[str, ...]
    entries: tuple[str, ...]
    question: Question
    optimum: "Optimum"
    every: tuple[EntryOptimum, ...]

    def to_data(self) -> dict[str, Any]:
        """The optimum as plain data, with its entries and the optimum of every combination."""
        return {
            **self.optimum.to_data(),
            "entries": dict(zip(self.groups, self.entries, strict=True)),
            "by_entry": [
                {
                    "entries": dict(zip(self.groups, one.entries, strict=True)),
                    "value": one.optimum and one.optimum.target.shown(one.optimum.value),
                    "reason": one.reason,
                }
                for one in self.every
            ],
        }


def best_entry(
    groups: Sequence[str], found: Sequence[Scenario], search: Callable[[Question], "Optimum"]
) -> BestEntry:
    """Minimize with every combination of entries; raises where none has a feasible point."""
    every = [_search(scenario, search) for scenario in found]
    feasible = [(one.optimum, one) for one in every if one.optimum is not None]
    if not feasible:
        reasons = "; ".join(f"{', '.join(one.entries)}: {one.reason}" for one in every)
        raise InfeasibleError(f"no entry has a feasible point: {reasons}")
    sign = -1.0 if feasible[0][0].maximized else 1.0
    optimum, best = min(feasible, key=lambda pair: sign * pair[0].value)
    return BestEntry(tuple(groups), best.entries, best.question, optimum, tuple(every))


def _search(scenario: Scenario, search: Callable[[Question], "Optimum"]) -> EntryOptimum:
    try:
        return EntryOptimum(scenario.entries, scenario.question, search(scenario.question))
    except (InfeasibleError, MissingInputsError) as error:
        return EntryOptimum(scenario.entries, scenario.question, None, error.message)


def catalog_optimum_report(
    best: BestEntry,
    optimum_lines: Callable[[Canvas], Iterable[Line]],
    as_json: bool,
    problem: AssayError | None,
) -> Report:
    """The best entry, its optimum, and what every other entry reaches."""

    def text(canvas: Canvas) -> Iterator[Line]:
        for group, entry in zip(best.groups, best.entries, strict=True):
            yield (f"{group}: ", (entry, NAME))
        yield from optimum_lines(canvas)
        yield ""
        rows = [_row(one) for one in best.every]
        yield from table((*best.groups, "best", ""), rows, canvas)

    notes = [*best.optimum.notes, *best.question.notes]
    return Report(best.to_data(), text, as_json, problem, notes)


def _row(one: EntryOptimum) -> tuple[Part, ...]:
    names = [(name, NAME) for name in one.entries]
    if one.optimum is None:
        return (*names, ("-", VALUE), (one.reason, BAD))
    return (*names, (one.optimum.target.figure(one.optimum.value).text, VALUE), "")
