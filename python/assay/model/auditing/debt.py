"""Root debt: the model's inputs, ranked by how much depends on them.

A root is a variable that nothing defines. Its boundary says what that means: `decompose` (a
later layer will compute it), `primitive` (a datum), `scenario` (a choice), `needs-source`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from assay.errors import InputError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.variables import Variable
from assay.model.selection import check_variants

if TYPE_CHECKING:
    from assay.model.registry import Registry
    from assay.model.uncertainty.propagate import VarianceShares

UNDECLARED = "undeclared"
"""Boundary of a root that declares none."""
CERTAIN, UNUSED = "certain as given", "not used"
CORRELATED = "share together with {} correlated"


@dataclass(frozen=True, slots=True)
class DebtRow:
    """A root, or a family of them, with what depends on it.

    Shares of the target's variance are total-order ones (`variance_share`) and first-order
    ones; where they are None when ranking by variance, `note` says why. Correlated roots have one
    share together, which `note` says too. Ranking by variance also lists what takes a share
    without being a root, under the boundary `pinned` (a computed variable that was given) or
    `stochastic` (one that is drawn).
    """

    name: str
    boundary: str
    dependents: int
    targets: tuple[str, ...]
    unit: str
    meaning: str
    has_reference: bool
    members: tuple[str, ...] = ()
    variance_share: float | None = None
    first_order_share: float | None = None
    share_half_width: float | None = None
    note: str = ""


class Debt(list[DebtRow]):
    """Rows in order of rank; `degradations` has one line for each loss of accuracy."""

    degradations: tuple[str, ...] = ()


def root_debt(
    registry: Registry,
    *,
    by: Literal["dependents", "variance"] = "dependents",
    target: str | None = None,
    given: Inputs | Mapping[str, Given] | None = None,
    variants: Mapping[str, str] | None = None,
    families: bool = False,
    include_constraints: bool = False,
    limit: int | None = None,
) -> Debt:
    """Rank the roots, of the whole graph or of one target, singly or by family.

    By `dependents`: the number of relations downstream, with `include_constraints` conditions
    among them. By `variance`: the share of the target's variance under the given distributions.
    """
    if by not in ("dependents", "variance"):
        raise InputError(f'unknown ranking "{by}"', "rank by dependents or by variance")
    if by == "variance" and target is None:
        raise InputError(
            "ranking by variance needs a target", "name the variable whose variance is shared out"
        )
    if limit is not None and limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    inputs = read_inputs(registry, given or {})
    check_variants(registry, variants or {})
    names = list(registry.graph.roots(target))
    variance: _Variance | None = None
    if by == "variance" and target is not None:
        variance = _variance(registry, target, inputs, variants, families)
        names += [name for name in variance.sources if name not in names]
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(registry.variables[name].family if families else name, []).append(name)
    rows = []
    for label, members in grouped.items():
        row = _row(registry, label, members, inputs.values, families, include_constraints)
        rows.append(row if variance is None else variance.complete(row, members))
    rows.sort(key=_rank)
    debt = Debt(rows[:limit])
    if variance is not None:
        debt.degradations = variance.shares.degradations
    return debt


@dataclass(frozen=True, slots=True)
class _Variance:
    """Shares of a target's variance, by root or by family, and what is given and used."""

    shares: VarianceShares
    sources: tuple[str, ...]
    used: frozenset[str]

    def complete(self, row: DebtRow, members: list[str]) -> DebtRow:
        for share in self.shares:
            together = self.shares.members[share.name]
            if not set(together).isdisjoint(members):
                others = len(set(together) - set(members))
                return replace(
                    row,
                    note=CORRELATED.format(others) if others else row.note,
                    variance_share=share.total_order,
                    first_order_share=share.first_order,
                    share_half_width=share.half_width,
                )
        return replace(row, note=UNUSED if self.used.isdisjoint(members) else CERTAIN)


def _variance(
    registry: Registry,
    target: str,
    inputs: Inputs,
    variants: Mapping[str, str] | None,
    families: bool,
) -> _Variance:
    from assay.model.uncertainty.propagate import variance_shares
    from assay.model.uncertainty.sources import UncertaintyQuery, find_sources

    groups = {name: v.family for name, v in registry.variables.items()} if families else {}
    shares = variance_shares(registry, target, inputs, variants, groups=groups)
    sources = find_sources(UncertaintyQuery(registry, (target,), inputs, variants or {}))
    return _Variance(shares, sources.names, sources.cone & inputs.values.keys())


def _row(
    registry: Registry,
    label: str,
    members: list[str],
    given: Collection[str],
    families: bool,
    include_constraints: bool,
) -> DebtRow:
    graph = registry.graph
    variables = [registry.variables[name] for name in members]
    reached = set(members).union(*map(graph.descendants, members))
    dependents = {relation.name for name in reached for relation in graph.users[name]}
    if include_constraints:
        dependents.update(relation.name for relation in graph.conditions_on(reached))
    return DebtRow(
        name=label,
        boundary=", ".join(dict.fromkeys(_boundary(variable, given) for variable in variables)),
        dependents=len(dependents),
        targets=tuple(name for name in registry.targets if name in reached),
        unit=", ".join(dict.fromkeys(variable.display.text for variable in variables)),
        meaning="" if families else variables[0].meaning,
        has_reference=all(variable.reference.kind != "unsourced" for variable in variables),
        members=tuple(members) if families else (),
    )


def _boundary(variable: Variable, given: Collection[str]) -> str:
    if variable.is_root:
        return variable.boundary or UNDECLARED
    return "pinned" if variable.name in given else "stochastic"


def _rank(row: DebtRow) -> tuple[float, int, int, str]:
    share = -1.0 if row.variance_share is None else row.variance_share
    return (-share, -row.dependents, -len(row.targets), row.name)
