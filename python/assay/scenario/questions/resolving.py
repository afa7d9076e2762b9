"""A variable's value, and its provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack

from assay.answers import Answer
from assay.keywords import takes
from assay.model.resolving.resolution import Resolution, TargetValue
from assay.scenario.question import GIVEN, Given, Question, problem_with, read_question
from assay.scenario.questions.remarks import remarks

if TYPE_CHECKING:
    from assay.model.resolving.provenance import Provenance
    from assay.model.resolving.resolver import Resolver

MAX_FURTHER_TARGETS: Final = 15
"""Most further targets that get an interval, and that are printed as text."""


@dataclass(frozen=True)
class ResolveAnswer(Answer):
    """A value with its trace, missing inputs, constraints and validity."""

    resolution: Resolution

    def headline(self) -> str:
        """The value with its unit and interval."""
        return self.resolution.headline()

    def to_json(self) -> dict[str, Any]:
        """The resolution as JSON data."""
        return self.resolution.to_data()


@takes(GIVEN)
def resolve(
    target: str,
    *,
    switch: bool = True,
    intervals: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> ResolveAnswer:
    """Compute a variable from given values.

    >>> answer = resolve("econ.cost.per_token", preset="dense_training_cost_fixture")
    >>> answer.resolution.variable.format(answer.resolution.value)
    '3.000078e-06 USD/token'
    """
    question = read_question(**given)
    resolution = question.resolve(target, switch=switch, intervals=intervals)
    problem = problem_with(
        resolution, fail_on_violated=fail_on_violated, allow_conflicts=allow_conflicts,
        stated=question.stated,
    )  # fmt: skip
    given_notes = question.notes_on_given([target], switch=switch)
    notes = [*given_notes, *remarks(resolution), *question.notes]
    return ResolveAnswer(resolution, problem=problem, notes=notes)


@dataclass(frozen=True)
class ExplainAnswer(Answer):
    """The provenance of a value, and further targets with their labels."""

    question: Question
    provenance: Provenance
    others: Sequence[tuple[str, TargetValue]]

    def headline(self) -> str:
        """The value with its unit and interval."""
        return self.provenance.resolution.headline()

    def to_json(self) -> dict[str, Any]:
        """The tree, its sources and the further targets as JSON data."""
        targets = [
            {
                "label": label,
                "target": other.variable.name,
                "value": None if other.value is None else other.variable.shown(other.value),
                "unit": other.variable.display.text,
            }
            for label, other in self.others
        ]
        return {**self.provenance.to_data(), "targets": targets}


@takes(GIVEN)
def explain(
    target: str,
    *,
    depth: int | None = None,
    switch: bool = True,
    intervals: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> ExplainAnswer:
    """Where a value comes from: every value, equation and source below it, to a depth."""
    from assay.model.resolving.provenance import explain as trace_back
    from assay.model.resolving.resolve import account, find_intervals, make_resolver, target_value

    question = read_question(**given)
    resolver = make_resolver(question.registry, question.inputs, question.variants, switch=switch)
    resolver.value(target)
    labels = _further_targets(question, resolver, target)
    sampled = [target, *list(labels)[:MAX_FURTHER_TARGETS]] if intervals else []
    sampled_intervals = find_intervals(resolver, sampled)
    resolution = account(resolver, target, sampled_intervals)
    provenance = trace_back(
        question.registry,
        resolution,
        variants=question.variants,
        sources=question.sources,
        depth=depth,
    )
    others = [
        (label, other)
        for name, label in labels.items()
        if (other := target_value(resolver, name, sampled_intervals)) is not None
    ]
    problem = problem_with(
        resolution, fail_on_violated=fail_on_violated, allow_conflicts=allow_conflicts,
        stated=question.stated,
    )  # fmt: skip
    notes = [*question.notes_on_given([target], switch=switch), *question.notes]
    return ExplainAnswer(question, provenance, others, problem=problem, notes=notes)


def _further_targets(question: Question, resolver: Resolver, target: str) -> dict[str, str]:
    """Labels of further targets: those of the scenario, then those of the model with a value."""
    from assay.model.resolving.resolve import resolvable

    own = {name: label for label, name in (question.preset.targets if question.preset else ())}
    labels = dict(own)
    for name in question.registry.targets:
        labels.setdefault(name, question.registry.variables[name].meaning)
    labels.pop(target, None)
    # `scenario_report` lists targets that fail by themselves; what nothing of the scenario enters says nothing of it.
    given = question.given.keys()
    return {
        name: labels[name]
        for name in resolvable(resolver, labels)
        if name in own
        or (resolver.value(name) is not None and not given.isdisjoint(resolver.cone(name)))
    }
