"""What a question gives: a scenario, entries, values and variants, and how they are judged."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypedDict

from assay import stack
from assay.errors import (
    AssayError,
    CheckFailedError,
    ContradictionError,
    InputError,
    MissingInputsError,
    UnknownNameError,
)
from assay.model.inputs import Inputs, read_inputs
from assay.model.language.distributions import Distribution
from assay.model.registry import Registry
from assay.model.resolving.resolution import Conflict, Resolution
from assay.model.uncertainty.correlation import Correlations, read_correlation
from assay.scenario import built_in
from assay.scenario.given_values import (
    ON_COMMAND_LINE,
    notes_on_given,
    stated_in_fixed_points,
    with_stated_forms,
)
from assay.scenario.named_scenario import Preset
from assay.scenario.refusals import refuse_impossible
from assay.spoken_options import given, given_pair, option

Pairs = Sequence[str] | Mapping[str, str] | None
"""Texts `name=value`, or values by name."""


class Given(TypedDict, total=False):
    """What a question may give, the same for all: every entry is optional.

    `preset` is a built-in scenario or a .toml file; `includes` are catalog entries, `GROUP/NAME` or
    .json files; `assign` are values with units or distributions, `variant` the relations that
    define variables, `model_config` a model's config.json, and `correlate` correlations of
    uncertain inputs, `NAME,OTHER=NUMBER`; `offer` rents the GPUs, `PROVIDER` or `PROVIDER:TERMS`.
    """

    preset: str | Sequence[str] | None
    assign: Pairs
    variant: Pairs
    includes: Sequence[str] | None
    model_config: str | None
    correlate: Sequence[str] | None
    offer: str | None


GIVEN: Final = tuple(Given.__annotations__)
"""What a question may give, by name."""

_KNOWN_PRESETS: Final = "assay list --presets lists the built-in ones"


@dataclass(frozen=True, slots=True)
class Question:
    """A registry with given values in base units and chosen variants.

    `sources` has the source of each value.
    """

    registry: Registry
    preset: Preset | None
    given: Mapping[str, float | Distribution]
    variants: Mapping[str, str]
    sources: Mapping[str, str]
    correlations: Correlations = field(default_factory=dict)

    @property
    def inputs(self) -> Inputs:
        """The given values with their correlations, checked."""
        stated = [name for name, source in self.sources.items() if source == ON_COMMAND_LINE]
        return read_inputs(self.registry, self.given, self.correlations, stated)

    @property
    def stated(self) -> Collection[str] | None:
        """Values given beside the scenario; None without one."""
        return None if self.preset is None else self.inputs.stated

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the catalog entries that the scenario and the command line include."""
        return () if self.preset is None else self.preset.notes

    def notes_on_given(
        self,
        targets: Sequence[str],
        free: Collection[str] = (),
        *,
        switch: bool = True,
        replaced: bool = True,
    ) -> list[str]:
        """What became of the values given beside the scenario; see `given_values`."""
        return notes_on_given(
            self.registry, self.inputs, self.variants, targets,
            free=free, switch=switch, replaced=replaced,
        )  # fmt: skip

    def resolve(self, target: str, *, switch: bool = True, intervals: bool = True) -> Resolution:
        """Resolve a variable at this point."""
        return self.registry.resolve(
            target, self.inputs, self.variants, switch=switch, intervals=intervals
        )


def each_of(names: str | Sequence[str]) -> Sequence[str]:
    """Names, of which one may be given alone: a text is no list of its letters.

    >>> each_of("gpu.power"), each_of(["gpu.power"])
    (['gpu.power'], ['gpu.power'])
    """
    return [names] if isinstance(names, str) else names


def read_question(
    preset: str | Sequence[str] | None = None,
    assign: Pairs = None,
    variant: Pairs = None,
    includes: Sequence[str] | None = None,
    model_config: str | None = None,
    correlate: Sequence[str] | None = None,
    offer: str | None = None,
) -> Question:
    """Merge a scenario and what is given beside it, which overrides it; see `Given`."""
    scenario = chosen_preset(preset)
    registry = stack.registry() if scenario is None else scenario.registry
    if includes or model_config is not None:
        scenario = _include(scenario, registry, each_of(includes or ()), model_config)
    if offer:
        from assay.scenario.offers import with_offer

        scenario = with_offer(scenario or Preset("command line", "", registry, {}), offer)
    assigned = read_pairs("--assign", 'name="value unit"', assign)
    variants = read_pairs("--variant", "variable=relation", variant)
    assigned, variants = with_stated_forms(assigned, variants, registry)
    given = read_inputs(registry, assigned).given
    sources = dict.fromkeys(given, ON_COMMAND_LINE)
    correlations = dict(read_correlation(text) for text in each_of(correlate or ()))
    if scenario is not None:
        scenario = scenario.computing({n: r for n, r in variants.items() if n not in assigned})
        # What the scenario says of values that are replaced no longer holds.
        kept = {
            pair: number
            for pair, number in scenario.correlations.items()
            if given.keys().isdisjoint(pair)
        }
        correlations = {**kept, **correlations}
        for name, assignment in scenario.assignments.items():
            sources.setdefault(name, f"{assignment.source} ({assignment.kind})")
        given = {**scenario.given, **given}
        values, choices = stated_in_fixed_points(given, scenario.variants)
        given = {**given, **values}
        sources.update((name, "the value given for what a fixed point computes") for name in values)
        variants = {**scenario.variants, **choices, **variants}
    refuse_impossible(given, variants, "" if scenario is None else scenario.accelerator)
    return Question(registry, scenario, given, variants, sources, correlations)


def _include(
    preset: Preset | None, registry: Registry, includes: Sequence[str], model_config: str | None
) -> Preset:
    """The preset, or an empty one, with the includes of the command line."""
    from assay.scenario.includes import include, include_model, refuse_rivals

    included = [include(path, registry) for path in includes]
    refuse_rivals(included)
    if model_config is not None:
        from assay.catalog import models

        included.append(include_model(models.from_config(model_config)))
    if preset is None:
        preset = Preset("command line", "", registry, {})
    return preset.with_includes(included)


def chosen_preset(names: str | Sequence[str] | None) -> Preset | None:
    """The scenario that a command is about.

    Two cannot be combined: each states a machine, a job and their prices, and a mixture of both
    would be neither.
    """
    chosen = [names] if isinstance(names, str) else list(dict.fromkeys(names or ()))
    if len(chosen) > 1:
        raise InputError(
            f"expected one {option('--preset')}, got {len(chosen)}: {', '.join(chosen)}",
            f"{option('--with')} GROUP/NAME adds the values of a catalog entry to one",
        )
    return find_preset(chosen[0]) if chosen else None


def find_preset(name: str) -> Preset:
    """A scenario by its name, or read from a file when the name is that of one."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not os.path.isfile(path):
            raise InputError(f"there is no scenario file {name}", _KNOWN_PRESETS)
        return Preset.from_file(path, stack.registry())
    try:
        return built_in.preset(name)
    except UnknownNameError as error:
        if not (error.hint or "").startswith("did you mean"):
            error.hint = _KNOWN_PRESETS
        raise


def read_pairs(flag: str, form: str, texts: Pairs) -> dict[str, str]:
    """Read `name=text` pairs; a name may be repeated only with the same text."""
    if isinstance(texts, Mapping):
        return dict(texts)
    pairs: dict[str, str] = {}
    for item in [texts] if isinstance(texts, str) else texts or ():
        name, separator, text = item.partition("=")
        name, text = name.strip(), text.strip()
        if not separator or not name or not text:
            example = given_pair(flag, *form.replace('"', "").split("="))
            raise InputError(
                f'malformed {option(flag)} "{item}": expected {form}',
                f"write {flag} {form}" if option(flag) == flag else f"write {example}",
            )
        if pairs.setdefault(name, text) != text:
            raise InputError(
                f'contradictory {option(flag)}: {name} is given as "{pairs[name]}" and as "{text}"',
                "give it once",
            )
    return pairs


def problem_with(
    resolution: Resolution,
    *,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    stated: Collection[str] | None = None,
) -> AssayError | None:
    """The most severe problem of a resolution, if any.

    `stated` are values that were given beside a scenario; None without a scenario.
    """
    if resolution.conflicts and not allow_conflicts:
        return conflict_error(resolution.conflicts, stated)
    if resolution.value is None:
        names = [gap.variable.name for gap in resolution.missing]
        many = "1 more input" if len(names) == 1 else f"{len(names)} more inputs"
        beside = f"use {option('--preset')}"
        if stated is not None:
            beside = f"add an entry that states it by {option('--with')}"
        return MissingInputsError(
            f"{resolution.target} needs {many}",
            names,
            f"give each a value with {given_pair('--assign', 'name', 'value unit')}, or {beside}",
        )
    if fail_on_violated and resolution.violated:
        names = [verdict.name for verdict in resolution.violated]
        return CheckFailedError(f"violated: {', '.join(names)}", f"assay show {names[0]} prints it")
    return None


def conflict_error(
    conflicts: Sequence[Conflict], stated: Collection[str] | None = None
) -> InputError:
    """The error for given values that contradict their own equations; see `problem_with`."""
    first = conflicts[0]
    name = first.variable.name
    others = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
    hint = f"drop the value of {name} or one of its inputs, or pass {given('--allow-conflicts')}"
    if stated is not None and name not in stated:
        # An entry gives the value, which a question cannot drop.
        computed = first.variable.format(first.computed)
        given_instead = given_pair("--set", name, computed)
        hint = f"an entry of the scenario gives it: {given_instead} replaces that"
    return ContradictionError(f"contradictory input: {first.text}{others}", hint)


def contradiction(
    question: Question, free: Iterable[str], *, switch: bool, allow_conflicts: bool
) -> InputError | None:
    """The error for given values that contradict each other, not counting the `free` ones."""
    from assay.model.resolving.resolve import find_conflicts

    if allow_conflicts:
        return None
    varied, inputs = set(free), question.inputs
    fixed = {name: value for name, value in inputs.values.items() if name not in varied}
    point = replace(inputs, values=fixed)
    conflicts = find_conflicts(question.registry, point, question.variants, switch=switch)
    stated = question.stated
    return conflict_error(conflicts, stated) if conflicts else None
