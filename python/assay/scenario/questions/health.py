"""The health of the model: broken invariants, weak declarations, ranked roots and open work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Unpack

from assay import stack
from assay.answers import Answer, data_of, plain_data
from assay.errors import CheckFailedError, one_of
from assay.keywords import takes
from assay.scenario.given_values import ON_COMMAND_LINE
from assay.scenario.question import GIVEN, Given, Question, chosen_preset, read_question

if TYPE_CHECKING:
    from assay.model.auditing.audit import AuditReport
    from assay.model.auditing.debt import Debt
    from assay.model.auditing.verify import VerifyReport
    from assay.model.auditing.work import WorkGroup, WorkItem
    from assay.scenario.hardware_audit import HardwareAudit

RANKINGS: Final[tuple[Literal["dependents", "variance"], ...]] = ("dependents", "variance")
PROFILES: Final[tuple[Literal["fast", "full"], ...]] = ("fast", "full")


@dataclass(frozen=True)
class VerifyAnswer(Answer):
    """The invariants of the model, and which of them are broken."""

    report: VerifyReport

    def to_json(self) -> dict[str, Any]:
        """The checks as JSON data."""
        return self.report.to_data()


def verify_model(profile: str = "fast", *, read_only: bool = False) -> VerifyAnswer:
    """Check the model against its invariants: `fast` reads declarations, `full` evaluates them."""
    from assay.model.auditing.verify import verify

    chosen = one_of("profile", profile, PROFILES)
    registry = stack.load_registry() if read_only else stack.registry()
    report = verify(registry, chosen, read_only)
    failed = [check.name for check in report.checks if check.status == "failed"]
    problem = CheckFailedError(f"rules broken: {', '.join(failed)}") if failed else None
    return VerifyAnswer(report, problem=problem)


@dataclass(frozen=True)
class AuditAnswer(Answer):
    """Unsourced, unreachable and duplicate declarations, and hardware that moves no headline."""

    report: AuditReport
    hardware: HardwareAudit

    def to_json(self) -> dict[str, Any]:
        """The audit as JSON data."""
        return self.report.to_data()


def audit_model(target: str | None = None, *, fail_on_issues: bool = False) -> AuditAnswer:
    """Find unsourced, unreachable and duplicate declarations, of all or of a variable's cone.

    Of all, a datum of hardware that moves no headline, a value outside its bounds and a constant of nature
    that nothing uses are problems in any case.
    """
    from assay.model.auditing.audit import audit
    from assay.scenario.hardware_audit import HardwareAudit, audit_hardware, covers

    registry = stack.registry()
    report = audit(registry, target)
    hardware = HardwareAudit((), ())
    if target is None and covers(registry):
        hardware = audit_hardware()
    problem = None
    faults = [
        *hardware.issues,
        *(f"constant {name} is not used" for name in report.unused_constants),
    ]
    if faults and covers(registry):
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        problem = CheckFailedError(
            f"{faults[0]}{more}", "assay sensitivity HEADLINE shows what moves it"
        )
    elif fail_on_issues and report.issues:
        more = f" and {len(report.issues) - 1} more" if len(report.issues) > 1 else ""
        problem = CheckFailedError(f"{report.issues[0]}{more}")
    return AuditAnswer(report, hardware, problem=problem)


@dataclass(frozen=True)
class NextWorkAnswer(Answer):
    """Open work, the weightiest first; as JSON `limit` items, 0 for all."""

    preset: str | None
    items: Sequence[WorkItem]
    limit: int

    @property
    def layers(self) -> list[WorkGroup]:
        """The items by layer and kind."""
        from assay.model.auditing.work import group_by_layer

        return group_by_layer(self.items)

    def to_json(self) -> dict[str, Any]:
        """The items as JSON data, and how many each layer has of each kind."""
        return {
            "preset": self.preset,
            "of": len(self.items),
            "items": plain_data(self.items[: self.limit or None]),
            "layers": [group._asdict() for group in self.layers],
        }


def next_work(
    preset: str | Sequence[str] | None = None,
    *,
    includes: Sequence[str] | None = None,
    limit: int = 0,
) -> NextWorkAnswer:
    """Rank open work on the model, and on a scenario with entries beside."""
    from assay.scenario.work import next_work

    scenario = chosen_preset(preset)
    if includes:
        scenario = read_question(preset, includes=includes).preset
    registry = stack.registry() if scenario is None else scenario.registry
    name = None if scenario is None else scenario.name
    return NextWorkAnswer(name, next_work(registry, scenario), limit)


UNRESOLVED: Final = frozenset({"missing", "assumed"})


class LayerDebt(NamedTuple):
    """Roots of a layer by kind of value; `owed` are the relations that rest on one that is missing or assumed."""

    layer: str
    kinds: dict[str, int]
    owed: int


@dataclass(frozen=True)
class RootDebtAnswer(Answer):
    """Ranked roots, or families of them; as JSON `limit` rows, 0 for all."""

    question: Question
    by: str
    target: str | None
    families: bool
    rows: Debt
    limit: int

    @property
    def layers(self) -> list[LayerDebt]:
        """Roots of each layer by how the scenario has their values, the greatest debt first."""
        kinds = _kinds(self.question)
        counts: dict[str, Counter[str]] = {}
        owed: dict[str, int] = {}
        for row in self.rows:
            layer = row.name.partition(".")[0]
            has = _kinds_among(row.members or (row.name,), kinds)
            counts.setdefault(layer, Counter()).update(has)
            if UNRESOLVED & set(has):
                owed[layer] = max(owed.get(layer, 0), row.dependents)
        layers = [LayerDebt(name, dict(has), owed.get(name, 0)) for name, has in counts.items()]
        return sorted(layers, key=lambda layer: (-layer.owed, layer.layer))

    def to_json(self) -> dict[str, Any]:
        """The rows as JSON data, each with the kinds of values that the scenario has for it."""
        kinds = _kinds(self.question)
        return {
            "by": self.by,
            "target": self.target,
            "families": self.families,
            "rows": [
                {**data_of(row), "given": _kinds_among(row.members or (row.name,), kinds)}
                for row in self.rows[: self.limit or None]
            ],
            "layers": [layer._asdict() for layer in self.layers],
            "degradations": list(self.rows.degradations),
        }


def _kinds(question: Question) -> dict[str, str]:
    """The kinds of the values that a question gives; those beside the scenario are `stated`."""
    assignments = question.preset.assignments if question.preset else {}
    stated = (name for name, source in question.sources.items() if source == ON_COMMAND_LINE)
    kinds = {name: assignment.kind for name, assignment in assignments.items()}
    return {**kinds, **dict.fromkeys(stated, "stated")}


def _kinds_among(names: Sequence[str], kinds: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(kinds.get(name, "missing") for name in names))


@takes(GIVEN)
def root_debt(
    by: str = "dependents",
    target: str | None = None,
    *,
    families: bool = False,
    include_constraints: bool = False,
    limit: int = 0,
    **given: Unpack[Given],
) -> RootDebtAnswer:
    """Rank roots by the relations that depend on them, or by their share of a target's variance."""
    from assay.model.auditing.debt import root_debt

    ranking = one_of("ranking", by, RANKINGS)
    question = read_question(**given)
    rows = root_debt(
        question.registry,
        by=ranking,
        target=target,
        given=question.inputs,
        variants=question.variants,
        families=families,
        include_constraints=include_constraints,
    )
    return RootDebtAnswer(question, by, target, families, rows, limit, notes=rows.degradations)
