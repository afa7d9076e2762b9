"""Presets: named scenarios over a registry, every value with its source."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from assay.catalog.sourced_value import SourcedValue
from assay.errors import AssayError, InputError
from assay.model.inputs import Inputs, assignable, read_inputs
from assay.model.language.distributions import Distribution
from assay.model.registry import Registry
from assay.model.resolving.constraint_verdicts import judge_constraints
from assay.model.resolving.resolution import Resolution
from assay.model.resolving.resolve import account, find_intervals, make_resolver, resolve
from assay.model.resolving.resolver import Resolver
from assay.model.uncertainty.correlation import Correlations
from assay.scenario.companions import (
    LINE_RATE,
    RACK_LIMIT,
    accelerator_of,
    follow,
    misfits,
    rack_supply,
    slower_network,
)
from assay.scenario.document import ScenarioDocument, read_document
from assay.scenario.given_values import ON_COMMAND_LINE, notes_on_given
from assay.scenario.includes import Include, MergedIncludes, include, merge_includes, packs_first
from assay.scenario.refusals import refuse_impossible
from assay.scenario.report import ScenarioReport, TargetReport
from assay.scenario.stored_formats import stored_formats


@dataclass(frozen=True)
class Preset:
    """A named scenario over a registry.

    `assignments` holds the values of its includes, overridden by those that it states itself
    (`own`).
    """

    name: str
    description: str
    registry: Registry = field(repr=False)
    assignments: dict[str, SourcedValue]
    variants: dict[str, str] = field(default_factory=dict)
    targets: tuple[tuple[str, str], ...] = ()
    included: tuple[Include, ...] = field(default=(), repr=False)
    own: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    correlations: Correlations = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path, registry: Registry) -> Preset:
        """Read a scenario file (TOML); names and units of its values are checked at once."""
        document = read_document(path)
        included = _includes(document, registry, path.parent)
        merged = _merge(included)
        preset = cls(
            document.name,
            document.description,
            registry,
            {**merged.values, **document.values},
            {**merged.variants, **document.variants},
            document.targets,
            included,
            frozenset(document.values),
            merged.notes,
            {**_among(merged.correlations, document.values), **document.correlations},
        )
        preset.inputs  # noqa: B018  (reads the values, which checks them)
        return preset

    @cached_property
    def inputs(self) -> Inputs:
        """The values in base units, parsed once; distributions where they are uncertain."""
        return self._read_inputs(exact=False)

    @cached_property
    def exact_inputs(self) -> Inputs:
        """The values in base units without the uncertainty that their sources state."""
        return self._read_inputs(exact=True)

    @property
    def given(self) -> dict[str, float | Distribution]:
        """The values in base units by variable, as `registry.resolve` takes them."""
        return self.inputs.given

    @property
    def accelerator(self) -> str:
        """Title of the included accelerator; empty without one."""
        accelerator = accelerator_of(self.included)
        return "" if accelerator is None else accelerator.title or accelerator.path

    def refuse_impossible(self) -> None:
        """Raise where the scenario asks for a format, context or layout that does not exist."""
        refuse_impossible(self.exact_inputs.given, self.variants, self.accelerator)

    def states(self, name: str) -> bool:
        """Whether the scenario gives this value itself, not through an include."""
        return name in self.assignments and (name in self.own or not self.included)

    def resolve(self, target: str) -> Resolution:
        """Resolve a target in this scenario."""
        self.refuse_impossible()
        return resolve(self.registry, target, self.inputs, self.variants)

    def _repr_html_(self) -> str:
        from assay.notebook import card

        own = [name for name in self.assignments if self.states(name)]
        others = [name for name in self.assignments if name not in own]
        data = {
            "targets": dict(self.targets),
            "variants": self.variants,
            "stated here": [self._row(name) for name in own],
            "included": [self._row(name) for name in others],
        }
        return card(f"scenario {self.name}", self.description, data, self.notes)

    def _row(self, name: str) -> dict[str, str]:
        value = self.assignments[name]
        return {"variable": name, "value": value.text, "kind": value.kind, "source": value.source}

    def with_includes(self, includes: Sequence[Include]) -> Preset:
        """The scenario with further includes; each replaces the present ones of its group.

        Another accelerator brings its price, node and network; see `companions`.
        """
        added_parts = packs_first(includes)
        followed = follow(
            self.included, added_parts, self.own, lambda path: include(path, self.registry)
        )
        included = followed.includes
        before, after = {id(part) for part in self.included}, {id(part) for part in included}
        added = [part for part in included if id(part) not in before]
        replaced = {name for part in added for name in part.values} | followed.stale
        own = {
            name: value
            for name, value in self.assignments.items()
            if name in self.own and name not in replaced
        }
        replaced_parts = [part for part in self.included if id(part) not in after]
        gone = {name for part in replaced_parts for name in part.values}
        # Variants of includes hold as these are merged again, those of the scenario itself unless one replaces them.
        dropped = {name for part in (*self.included, *replaced_parts) for name in part.variants}
        variants = {
            name: text for name, text in self.variants.items() if name not in dropped | replaced
        }
        merged = _merge(included)
        formats = stored_formats(included, added, {**merged.values, **own}, self.registry)
        own |= formats.values
        return replace(
            self,
            assignments={**merged.values, **own},
            variants={**variants, **merged.variants},
            included=included,
            own=frozenset(own),
            notes=(*followed.notes, *formats.notes, *merged.notes),
            correlations={
                **_among(self.correlations, gone | replaced),
                **_among(merged.correlations, own),
            },
        )

    def with_values(
        self, values: Mapping[str, SourcedValue], variants: Mapping[str, str] | None = None
    ) -> Preset:
        """The scenario with values and variants of its own, which replace those it has."""
        changed = replace(
            self,
            assignments={**self.assignments, **values},
            variants={**self.variants, **(variants or {})},
            own=self.own | frozenset(values),
            correlations=_among(self.correlations, values),
        )
        changed.inputs  # noqa: B018  (reads the values, which checks them)
        return changed

    def computing(self, variants: Mapping[str, str]) -> Preset:
        """The scenario without the values that it states for what these relations compute."""
        chosen = {
            name: relation
            for name, relation in variants.items()
            if name in self.assignments and self.registry.variable(name).is_root
        }
        if not chosen:
            return self
        notes = [
            f"{name}: computed by {relation}, as chosen, instead of the {self.assignments[name].text} "
            "of the scenario"
            for name, relation in chosen.items()
        ]
        kept = {name: item for name, item in self.assignments.items() if name not in chosen}
        return replace(
            self,
            assignments=kept,
            variants={**self.variants, **chosen},
            own=self.own - chosen.keys(),
            notes=(*self.notes, *notes),
            correlations=_among(self.correlations, chosen),
        )

    def evaluate_targets(
        self, targets: Sequence[tuple[str, str]] | None = None, *, intervals: bool = True
    ) -> ScenarioReport:
        """Resolve several targets and report on each; by default the scenario's own.

        Without `intervals`, the uncertainty of catalog values is ignored, which is much faster
        where only the status of targets matters.
        """
        self.refuse_impossible()
        chosen = self.targets if targets is None else targets
        inputs = self.inputs if intervals else self.exact_inputs
        try:
            resolver = make_resolver(self.registry, inputs, self.variants)
        except AssayError as error:
            failed = [_failed(label, target, error) for label, target in chosen]
            return ScenarioReport(self.name, tuple(failed), self.notes)
        reports = self._reports(resolver, chosen)
        if intervals:
            reports = self._with_variance(reports, resolver)
        known = [target for _, target in chosen if target in resolver.values]
        given_notes = notes_on_given(self.registry, inputs, self.variants, known)
        return ScenarioReport(self.name, tuple(reports), (*given_notes, *self.notes))

    def variance_by_kind(
        self, targets: Sequence[str], nominal: Mapping[str, float] | None = None
    ) -> dict[str, dict[str, float]]:
        """Share of each target's variance that values of each kind contribute, largest first.

        Draws of stochastic relations count as kind `stochastic`. Shares are total-order Sobol
        indices, so those of interacting kinds may sum to more than one. `nominal` holds values that
        are resolved already.
        """
        from assay.model.uncertainty.grouped_shares import shares_by_group

        drawn = {
            self.registry.relations[name].variable: "stochastic"
            for name in self.registry.relations_of_kind("stochastic")
        }
        kinds = {name: assignment.kind for name, assignment in self.assignments.items()}
        return shares_by_group(
            self.registry, targets, self.inputs, self.variants, {**drawn, **kinds}, nominal=nominal
        )

    def _read_inputs(self, *, exact: bool) -> Inputs:
        given = {
            name: assignment.read(assignable(self.registry, name), exact=exact)
            for name, assignment in self.assignments.items()
        }
        stated = [n for n, given in self.assignments.items() if given.source == ON_COMMAND_LINE]
        return read_inputs(self.registry, given, {} if exact else self.correlations, stated)

    def _with_variance(self, reports: list[TargetReport], resolver: Resolver) -> list[TargetReport]:
        uncertain = [report.target for report in reports if report.is_uncertain]
        if not uncertain:
            return reports
        try:
            shares = self.variance_by_kind(list(dict.fromkeys(uncertain)), resolver.known_values)
        except AssayError as error:
            remark = f"shares of the variance are not known: {error.message}"
            return [
                replace(report, remarks=(remark,)) if report.is_uncertain else report
                for report in reports
            ]
        return [
            replace(report, variance_by_kind=shares[report.target])
            if report.is_uncertain
            else report
            for report in reports
        ]

    def _reports(self, resolver: Resolver, chosen: Sequence[tuple[str, str]]) -> list[TargetReport]:
        """A report on each target, with the intervals of all from one sample."""
        errors: dict[str, AssayError] = {}
        for _, target in chosen:
            try:
                resolver.value(target)
            except AssayError as error:
                errors[target] = error
        known = dict.fromkeys(target for _, target in chosen if target not in errors)
        intervals = find_intervals(resolver, list(known))
        verdicts = judge_constraints(resolver)
        reports = []
        for label, target in chosen:
            try:
                if target in errors:
                    raise errors[target]
                reports.append(_report(label, account(resolver, target, intervals, verdicts)))
            except AssayError as error:
                reports.append(_failed(label, target, error))
        return reports


def _failed(label: str, target: str, error: AssayError) -> TargetReport:
    return TargetReport(label, target, "error", (error.message,), None)


def _report(label: str, resolution: Resolution) -> TargetReport:
    issues = [f"missing input {gap.variable.name}" for gap in resolution.missing]
    issues += [f"violated constraint {verdict.name}" for verdict in resolution.violated]
    issues += [
        f"invalid approximation {v.name}" for v in resolution.validity if v.status == "false"
    ]
    issues += [f"conflict in {conflict.variable.name}" for conflict in resolution.conflicts]
    status = "issues" if issues else "ok"
    return TargetReport(label, resolution.target, status, tuple(issues), resolution)


def _among(correlations: Correlations, replaced: Container[str]) -> dict[tuple[str, str], float]:
    """Correlations of values that nothing replaces."""
    return {
        pair: value
        for pair, value in correlations.items()
        if not any(name in replaced for name in pair)
    }


def _merge(included: Sequence[Include]) -> MergedIncludes:
    """Values, variants and notes of all includes, with those of entries that do not fit."""
    merged = merge_includes(included)
    values = merged.values
    gaps = [
        f"{name} is not known: {reason} ({part.path})"
        for part in included
        for name, reason in dict(part.facts.get("gaps", {})).items()
        if name not in values
    ]
    notes = [*misfits(included), *gaps, *merged.notes]
    if (slower := slower_network(included, values)) is not None:
        values = {**values, LINE_RATE: slower[0]}
        notes.insert(0, slower[1])
    if (supply := rack_supply(included)) is not None:
        values = {**values, RACK_LIMIT: supply}
        notes = [note for note in notes if not note.startswith(f"{RACK_LIMIT}: ")]
    return replace(merged, values=values, notes=tuple(notes))


def _includes(document: ScenarioDocument, registry: Registry, folder: Path) -> tuple[Include, ...]:
    """The includes of a scenario file, without the values that it drops."""
    includes = [include(path, registry, folder) for path in document.include]
    known = {name for part in includes for name in part.values}
    for name in document.drop:
        if name not in known:
            raise InputError(
                f"scenario {document.name}: drop names {name}, which no include gives",
                "leave it out of drop",
            )
    return tuple(
        replace(part, values={n: v for n, v in part.values.items() if n not in document.drop})
        for part in includes
    )
