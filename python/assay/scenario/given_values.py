"""What became of the values given beside a scenario: each is used, or a note says why it is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from assay.model.inputs import Inputs
from assay.model.registry import Registry
from assay.model.resolving.resolve import make_resolver
from assay.model.resolving.unused import unused_inputs

T = TypeVar("T")
ON_COMMAND_LINE: Final = "given on the command line"
"""The source of a value that no scenario or entry gives."""


class StatedForm(NamedTuple):
    """A root that states a computed quantity, and the variants that compute with it."""

    root: str
    variants: Mapping[str, str]


STATED_FORMS: Final = {
    "thermal.dc.pue": StatedForm(
        "thermal.dc.stated_pue", {"thermal.dc.overhead_power": "thermal.dc.overhead_stated"}
    )
}
"""Computed quantities on which costs do not depend, by the input that takes their place."""


class FixedPoint(NamedTuple):
    """A variable whose relation computes a quantity itself, and what replaces it where that is stated."""

    variable: str
    relation: str
    stated_relation: str
    root: str


FIXED_POINTS: Final = {
    "gpu.activity": FixedPoint(
        "delivery.input_power",
        "drawing.power_of_chip",
        "drawing.power_at_activity",
        "drawing.stated_activity",
    )
}
"""Fixed points by the quantity that they compute, since they cannot depend on it."""


def stated_in_fixed_points(
    given: Mapping[str, T], variants: Mapping[str, str]
) -> tuple[dict[str, T], dict[str, str]]:
    """Values and variants that let fixed points of a scenario use quantities as they are given."""
    values: dict[str, T] = {}
    chosen: dict[str, str] = {}
    for name, point in FIXED_POINTS.items():
        if (
            name in given
            and point.root not in given
            and variants.get(point.variable) == point.relation
        ):
            values[point.root] = given[name]
            chosen[point.variable] = point.stated_relation
    return values, chosen


def with_stated_forms(
    assigned: Mapping[str, str], variants: Mapping[str, str], registry: Registry
) -> tuple[dict[str, str], dict[str, str]]:
    """Given values and variants, with the input that states a given computed quantity beside it."""
    values, chosen = dict(assigned), dict(variants)
    for name, form in STATED_FORMS.items():
        if name in assigned and form.root in registry.variables and form.root not in assigned:
            values[form.root] = assigned[name]
            chosen = {**form.variants, **chosen}
    return values, chosen


def notes_on_given(
    registry: Registry,
    inputs: Inputs,
    variants: Mapping[str, str],
    targets: Sequence[str],
    *,
    free: Collection[str] = (),
    switch: bool = True,
    replaced: bool = True,
) -> list[str]:
    """One note for each stated value that replaces a computed one, or that no target depends on.

    `free` are variables that are swept or searched; `replaced` is false where the answer itself
    lists values that differ from their equation.
    """
    asked = [name for name in dict.fromkeys(targets) if name not in free]
    if not asked or not (inputs.stated or free):
        return []
    known = {name: value for name, value in inputs.values.items() if name not in free}
    resolver = make_resolver(registry, replace(inputs, values=known), variants, switch=switch)
    if not all(conflict.replaces for conflict in resolver.conflicts()):
        # The answer lists contradictory values, or is an error.
        return []
    notes = [conflict.text for conflict in resolver.conflicts()] if replaced else []
    names = sorted({*inputs.stated, *free}.difference(asked))
    findings = {unused.name: unused for unused in unused_inputs(resolver, asked, names, free)}
    for name, form in STATED_FORMS.items():
        if name in free and name in findings:
            remedy = f"--over {form.root}= with {_options(form)}"
            findings[name] = findings[name]._replace(remedy=remedy)
        if not {name, form.root} <= inputs.stated:
            continue
        # What holds for the input that states a quantity holds for the quantity.
        findings.pop(name, None)
        stopped = findings.pop(form.root, None)
        if stopped is not None and name not in asked:
            findings[name] = stopped._replace(name=name)
        else:
            relations = ", ".join(form.variants.values())
            given = registry.variables[name].format(inputs.values[name])
            notes.append(f"{name}: {given} as given replaces the computed one, by {relations}")
    return [*notes, *(unused.text for unused in findings.values())]


def _options(form: StatedForm) -> str:
    return " ".join(f"--variant {name}={relation}" for name, relation in form.variants.items())
