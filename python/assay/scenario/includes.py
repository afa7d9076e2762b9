"""Includes of a scenario: catalog entries, models and fitted constants, by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.catalog import engines, entries
from assay.catalog.entries import CatalogEntry
from assay.catalog.sourced_value import SourcedValue
from assay.errors import AssayError, InputError, unknown_name
from assay.model.declarations import Declarations
from assay.model.language.quantity import parse_quantity
from assay.model.uncertainty.correlation import Correlations

if TYPE_CHECKING:
    from assay.catalog.models import CatalogModel


ACHIEVED: Final = "training.achieved_share"
PACKS: Final = "packs"
"""The group of entries that bring other entries."""


@dataclass(frozen=True)
class Include:
    """Values by variable from one include, notes on them, and the variants they call for."""

    path: str
    values: Mapping[str, SourcedValue]
    notes: tuple[str, ...] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    """A later include of the same group replaces this one."""
    correlations: Correlations = field(default_factory=dict)
    title: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the catalog entry beside its values, such as the companions of an accelerator."""


@dataclass(frozen=True)
class MergedIncludes:
    """What several includes give together; of two values of one variable the later holds."""

    values: dict[str, SourcedValue]
    variants: dict[str, str]
    notes: tuple[str, ...]
    correlations: Correlations


def include(path: str, registry: Declarations, folder: Path | None = None) -> Include:
    """Find one include: `group/name`, or a JSON file in the catalog's format.

    An accelerator brings its fitted constants along; `engines/name` gives those of a serving engine.
    """
    if path.endswith(".json"):
        file = Path(path) if folder is None else folder / path
        entry = entries.from_file(file)
        if "calibration" in entry.facts:
            return include_calibrated(entry, path, registry)
        return _include_entry(entry, path, registry)
    group, separator, name = path.partition("/")
    if not separator or not name:
        raise InputError(f'malformed include "{path}": expected group/name', _groups_hint())
    if group == "models":
        from assay.catalog import models

        return include_model(models.find(name))
    if group == "accelerators":
        from assay.catalog import accelerators

        entry = accelerators.find(name)
        if "calibration" in entry.facts:
            return include_calibrated(entry, entry.path, registry)
        return _include_entry(entry, entry.path, registry)
    if group == "engines":
        return include_engine(name, registry)
    if group == "nodes" and name in entries.names("processes"):
        # A node is a machine here and a process in a fab: both words are the field's.
        group = "processes"
    if group not in entries.groups():
        error = unknown_name("catalog group", group, known_groups())
        error.hint = error.hint or _groups_hint()
        raise error
    entry = entries.find(group, name, f"entry of {group}")
    return _include_entry(entry, entry.path, registry)


def include_model(model: CatalogModel) -> Include:
    """The shapes of a model as an include, with the format of its files as a fact."""
    return Include(
        f"models/{model.name}", model.entry.values, model.notes, group="models",
        facts={"checkpoint": model.checkpoint},
    )  # fmt: skip


def known_groups() -> list[str]:
    """Groups that can be included from."""
    return sorted([*entries.groups(), "engines"])


def merge_includes(includes: Iterable[Include]) -> MergedIncludes:
    """Merge includes in order: of two that state or compute a variable the later holds.

    Notes say once for each variable on which they differ which holds.
    """
    values: dict[str, SourcedValue] = {}
    variants: dict[str, str] = {}
    origin: dict[str, str] = {}
    notes: list[str] = []
    differences: dict[str, _Difference] = {}
    parts = list(includes)
    for part in parts:
        notes += part.notes
        for name, relation in part.variants.items():
            if name in values and origin[name] != part.path:
                # An entry that chooses how a quantity is computed replaces what others state for it.
                replaced = f"the {values.pop(name).text} of {origin[name]}"
                differences[name] = _Difference(name, part, relation, replaced, is_computed=True)
            elif name in variants and variants[name] != relation:
                replaced = f"by {variants[name]}, as {origin[name]} does"
                differences[name] = _Difference(name, part, relation, replaced, is_computed=True)
            variants[name] = relation
            origin[name] = part.path
        for name, value in part.values.items():
            if name in variants and origin[name] != part.path:
                replaced = f"computed by {variants.pop(name)}, as {origin[name]} chooses"
                differences[name] = _Difference(name, part, value.text, replaced)
            elif name in values and not _is_equal(values[name], value):
                differences[name] = _Difference(
                    name, part, value.text, values[name].text, said_by=origin[name]
                )
            values[name] = value
            origin[name] = part.path
    correlations = {
        pair: value
        for part in parts
        for pair, value in part.correlations.items()
        # A correlation holds between the values that it was stated for.
        if all(origin.get(name) == part.path for name in pair)
    }
    return MergedIncludes(
        values, variants, (*notes, *_notes_on(differences.values())), correlations
    )


class _Difference(NamedTuple):
    """A variable that an include states or computes otherwise than one before it.

    `said_by` is that one, where both state a value.
    """

    name: str
    part: Include
    holds: str
    replaced: str
    is_computed: bool = False
    said_by: str = ""

    @property
    def text(self) -> str:
        """The note on it."""
        if self.said_by:
            return (
                f"{self.name}: {self.said_by} says {self.replaced}, {self.part.path} says "
                f"{self.holds}, which holds"
            )
        if self.is_computed:
            return (
                f"{self.name}: computed by {self.holds}, as {self.part.path} chooses, instead of "
                f"{self.replaced}"
            )
        return f"{self.name}: {self.holds} of {self.part.path}, instead of {self.replaced}"


def _notes_on(differences: Iterable[_Difference]) -> list[str]:
    """A note for each difference; those of or from a pack, which differs from many, are one."""
    notes = []
    joined: dict[str, list[str]] = {}
    for difference in differences:
        path, before = difference.part.path, difference.said_by
        if difference.part.group == PACKS:
            beginning = f"{path} computes or states itself what other entries state"
            joined.setdefault(beginning, []).append(difference.name)
        elif before.startswith(f"{PACKS}/"):
            beginning = f"{path} replaces values of {before}"
            joined.setdefault(beginning, []).append(f"{difference.name} ({difference.holds})")
        else:
            notes.append(difference.text)
    together = [f"{beginning}: {', '.join(names)}" for beginning, names in joined.items()]
    return [*together, *notes]


def packs_first(includes: Sequence[Include]) -> list[Include]:
    """Includes in an order in which what is named itself comes after what a pack brings.

    An entry that a pack brings anyway adds nothing.
    """
    brought = {path for part in includes for path in part.facts.get("includes", ())}
    named = [part for part in includes if part.path not in brought]
    return sorted(named, key=lambda part: part.group != PACKS)


def refuse_rivals(included: Iterable[Include]) -> None:
    """Raise where two entries of one group are named: each states the same of the scenario, and one would be lost."""
    named: dict[str, str] = {}
    for part in included:
        # Packs add to each other, and a file of the user's own adds to an entry.
        if part.group == PACKS or part.path.endswith(".json"):
            continue
        if named.setdefault(part.group, part.path) != part.path:
            raise InputError(
                f"expected one entry of {part.group}, got {named[part.group]} and {part.path}",
                f"give one --with {part.group}/NAME; sweep compares several: --over {part.group}=A,B",
            )


def _include_entry(entry: CatalogEntry, path: str, registry: Declarations) -> Include:
    """An entry as an include; a pack brings the entries that it names, whose values its own replace."""
    variants = dict(entry.facts.get("variants", {}))
    notes: tuple[str, ...] = ()
    if "unmodeled" in entry.facts:
        instead = "--variant training.compute_time=training.at_peak gives a step at the peak rate"
        if ACHIEVED in entry.values:
            reached = entry.values[ACHIEVED]
            instead = (
                "--variant training.step_time=training.by_achieved_share gives a training step at "
                f"{reached.text} of the peak rate ({reached.source})"
            )
        notes = (
            f"kernels of {entry.title} are not modeled ({entry.facts['unmodeled']}): {instead}",
        )
    own = Include(
        path, entry.values, notes, variants, entry.group, title=entry.title, facts=entry.facts
    )
    parts = [include(part, registry) for part in entry.facts.get("includes", ())]
    if not parts:
        return own
    merged = merge_includes([*parts, own])
    # What a pack chooses among its own entries is no disagreement.
    return replace(
        own, values=merged.values, variants=merged.variants, correlations=merged.correlations,
        notes=(*(note for part in parts for note in part.notes), *notes),
    )  # fmt: skip


def include_calibrated(entry: CatalogEntry, path: str, registry: Declarations) -> Include:
    """An accelerator with the fitted constants that its entry names."""
    from assay.catalog import constants

    calibration = constants.find(
        str(entry.facts.get("calibration") or entry.name), accelerator=entry.name
    )
    fitted = _sourced(
        calibration.values,
        f"fitted constants of {calibration.source_system}",
        registry,
        calibration.log_standard_errors,
        calibration.kinds,
    )
    values = {**fitted, **entry.values}
    variants = CLOCK_VARIANTS if values.keys() >= CLOCKS else {}
    return Include(
        path, values, calibration.notes, variants, entry.group, title=entry.title, facts=entry.facts,
        correlations=_among_uncertain(calibration.correlations, fitted, entry.values),
    )  # fmt: skip


CLOCKS = frozenset({"gpu.clock", "gpu.reference.clock"})
CLOCK_VARIANTS = {"kernels.device.boost_ratio": "kernels.device.ratio_of_boosts"}
"""Where both clocks are known, a scenario that states another boost clock does not speed up its kernels by that."""

ENGINE_VARIANTS = {
    "gpu.work.tensor_use": "serving.work.tensor_use",
    "gpu.work.memory_use": "serving.work.memory_use",
    "gpu.work.clock_share": "serving.work.clock_share",
    "gpu.duty": "econ.serving.duty",
}
"""With an engine the GPUs serve: their power follows its iterations, not a training step."""


def include_engine(
    name: str, registry: Declarations, client: str = engines.DEFAULT_CLIENT
) -> Include:
    """The constants of a serving engine, and of the client that sends it requests."""
    engine = engines.find(name, client)
    values = _sourced(
        engine.values,
        f"constants of the engine {name}",
        registry,
        engine.log_standard_errors,
        engine.kinds,
    )
    correlations = _among_uncertain(engine.correlations, values, {})
    return Include(
        f"engines/{name}", values, variants=ENGINE_VARIANTS, group="engines",
        correlations=correlations,
    )  # fmt: skip


def _among_uncertain(
    correlations: Correlations, fitted: Mapping[str, SourcedValue], replaced: Container[str]
) -> Correlations:
    """Correlations of fitted constants that are uncertain and that nothing replaces."""
    return {
        pair: value
        for pair, value in correlations.items()
        if all(name in fitted and fitted[name].log_spread for name in pair)
        and not any(name in replaced for name in pair)
    }


def _sourced(
    numbers: Mapping[str, float],
    source: str,
    registry: Declarations,
    log_standard_errors: Mapping[str, float],
    kinds: Mapping[str, str],
) -> dict[str, SourcedValue]:
    """Fitted numbers in base units as sourced values.

    A number that a relation computes as well is a check on that relation, and is left out.
    """
    values = {}
    for name, number in numbers.items():
        variable = registry.variables.get(name)
        if variable is None or not variable.is_root:
            continue
        # A fit that ends at a bound says nothing about the other side of it.
        inside = max(variable.lower, 0.0) < number < variable.upper
        spread = log_standard_errors.get(name, 0.0) if inside else 0.0
        kind = kinds.get(name, "measured")
        values[name] = SourcedValue.from_number(variable, number, source, kind, spread)
    return values


def _is_equal(first: SourcedValue, second: SourcedValue) -> bool:
    try:
        return first.text == second.text or _number(first) == _number(second)
    except AssayError:
        return False


def _number(value: SourcedValue) -> float:
    return parse_quantity(value.text).value if value.number is None else value.number


def _groups_hint() -> str:
    return f"groups: {', '.join(known_groups())}"
