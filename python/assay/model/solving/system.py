"""The equations of a solve and the order in which to solve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from assay.errors import (
    AmbiguityError,
    InputError,
    MissingInputsError,
    OverdeterminedError,
    UnderdeterminedError,
)
from assay.model.inputs import Inputs
from assay.model.resolving.resolver import Resolver
from assay.model.solving.structure import Matching
from assay.model.tapes.cones import Cones

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


class Statement(NamedTuple):
    """An equation about a variable.

    Its definition equals the required value (`requirement`), the unknown itself (`own`), or the
    intermediate that it defines (`identity`).
    """

    kind: Literal["requirement", "own", "identity"]
    variable: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Unknowns that are solved for together, and the statements that fix them."""

    unknowns: tuple[str, ...]
    statements: tuple[Statement, ...]


class System:
    """Unknowns and the statements about them, among known values.

    Required variables count as known: variables computed from one use the required value, and its
    definition becomes an equation. `idle` are inputs without a value that only branches not taken
    would need.
    """

    def __init__(
        self,
        registry: Declarations,
        unknown: Sequence[str],
        given: Mapping[str, float],
        equal: Mapping[str, float],
        variants: Mapping[str, str],
        *,
        switch: bool = True,
    ) -> None:
        """Collect the statements; raises MissingInputsError with all missing inputs."""
        self.registry = registry
        self.unknown = tuple(unknown)
        self.given = given
        self.equal = equal
        self.notes: list[str] = []
        self.cones = Cones(registry, [*given, *equal, *unknown], variants, switch=switch)
        self._resolver = Resolver(registry, Inputs({**given, **equal}), variants, switch=switch)
        self._check_names()
        self.user_statements = [Statement("requirement", name) for name in equal]
        self.user_statements += [Statement("own", name) for name in unknown if self._has_own(name)]
        self.idle = self._idle_inputs()
        self.intermediates = self._dependent_intermediates()
        variables = {*self.unknown, *self.intermediates}
        statements = [
            *self.user_statements,
            *(Statement("identity", m) for m in self.intermediates),
        ]
        self.incidence = {
            s: tuple(dict.fromkeys(n for n in self._mentioned(s) if n in variables))
            for s in statements
        }
        self.matching = Matching(
            self.incidence,
            [*self.unknown, *self.intermediates],
            {s: s.variable for s in statements if s.kind != "requirement"},
        )

    def check(self) -> None:
        """Refuse a structurally singular system, with a minimal set of names."""
        if self.matching.surplus_equations:
            raise self._overdetermined()
        if self.matching.free_unknowns:
            raise self._underdetermined()

    def plans(self) -> list[list[Stage]]:
        """Decompositions of the system into stages, the most promising first.

        Where solving for intermediates gives smaller stages, that comes first. It may fail where an
        intermediate has several roots, so the direct decomposition follows.
        """
        direct, tearing = self._direct_stages(), self._tearing_stages()
        largest = [
            max((len(stage.unknowns) for stage in plan), default=0) for plan in (tearing, direct)
        ]
        return [tearing, direct] if largest[0] < largest[1] else [direct]

    def _check_names(self) -> None:
        for name in self.equal:
            variable = self.registry.variables[name]
            if name in self.unknown:
                continue
            if name in self.given:
                raise InputError(
                    f"{name} is given as {variable.format(self.given[name])} and required to be "
                    f"{variable.format(self.equal[name])}",
                    "drop one of the two, or list it among the unknowns",
                )
            if variable.is_given(self.cones.variants):
                raise InputError(
                    f"{name} is an input: nothing computes it, so nothing can be solved for it",
                    "give it its value, or list it among the unknowns",
                )

    def _has_own(self, name: str) -> bool:
        """Whether an unknown's own relation is one of the equations; if not, a note says why."""
        if self.registry.variables[name].is_given(self.cones.variants):
            return False
        try:
            gaps = self.cones.missing_inputs(self.cones.definition(name))
            gaps = gaps and self._missing_inputs([name])
        except AmbiguityError:
            self.notes.append(f"{name} has several relations and none was chosen: left free")
            return False
        if gaps:
            self.notes.append(f"{name} is left free: its own relation lacks {', '.join(gaps)}")
        return not gaps

    def _idle_inputs(self) -> list[str]:
        """Inputs without a value that nothing needs; raises where one is needed."""
        names = [n for s in self.user_statements for n in self._mentioned(s)]
        idle = self.cones.missing_inputs(names)
        if idle and (gaps := self._missing_inputs([s.variable for s in self.user_statements])):
            raise MissingInputsError(
                f"solving for {', '.join(self.unknown)} needs {len(gaps)} more inputs: "
                + ", ".join(gaps),
                gaps,
                "give each a value, or list it among the unknowns",
            )
        return idle

    def _missing_inputs(self, names: Sequence[str]) -> list[str]:
        """Inputs without a value below the definitions of the names, by the branches taken."""
        missing: dict[str, None] = {}
        seen: set[str] = set()
        pending = [needed for name in names for needed in self._taken(name)]
        while pending:
            name = pending.pop(0)
            if name in seen or name in self.cones.known or name in self.registry.constants:
                continue
            seen.add(name)
            if self.registry.variable(name).is_given(self.cones.variants):
                missing[name] = None
            else:
                pending += self._taken(name)
        return list(missing)

    def _taken(self, name: str) -> tuple[str, ...]:
        """What the definition of a variable needs; of a choice that no unknown decides, one branch."""
        relations = self.cones.relations(name)
        if len(relations) > 1 or "select" not in relations[0].parts.get("expression", ""):
            return self.cones.definition(name)
        unknown = set(self.unknown)
        fixed = {}
        for needed in relations[0].inputs:
            if unknown.isdisjoint(self.cones.upstream([needed])):
                fixed[needed] = self._resolver.value(needed)
        known = {needed: value for needed, value in fixed.items() if value is not None}
        return relations[0].evaluate_partly(known)[1]

    def _mentioned(self, statement: Statement) -> tuple[str, ...]:
        name = statement.variable
        if statement.kind == "requirement":
            return (name,) if name in self.unknown else self.cones.definition(name)
        return (name, *self.cones.definition(name))

    def _dependent_intermediates(self) -> list[str]:
        """Computed variables between the unknowns and the statements."""
        cone = self.cones.upstream(n for s in self.user_statements for n in self._mentioned(s))
        users: dict[str, list[str]] = {}
        for name in cone:
            for needed in self.cones.needs(name):
                users.setdefault(needed, []).append(name)
        dependent = set(self.unknown)
        stack = list(self.unknown)
        while stack:
            for user in users.get(stack.pop(), ()):
                if user not in dependent:
                    dependent.add(user)
                    stack.append(user)
        return [name for name in cone if name in dependent and name not in self.unknown]

    def _direct_stages(self) -> list[Stage]:
        """Stages over the unknowns alone, intermediates computed on the way."""
        unknown = set(self.unknown)
        incidence = {
            s: tuple(n for n in self.cones.upstream(self._mentioned(s)) if n in unknown)
            for s in self.user_statements
        }
        matching = Matching(incidence, self.unknown)
        return [
            Stage(tuple(matching.solved_for[s] for s in block), tuple(block))
            for block in matching.blocks()
        ]

    def _tearing_stages(self) -> list[Stage]:
        """Stages over unknowns and intermediates that equations fix before they are computed."""
        stages = []
        for block in self.matching.blocks():
            variables = [self.matching.solved_for[s] for s in block]
            computed = {s.variable for s in block if s.kind == "identity"} & set(variables)
            unknowns = tuple(name for name in variables if name not in computed)
            statements = tuple(
                s for s in block if s.kind != "identity" or s.variable not in computed
            )
            if unknowns:
                stages.append(Stage(unknowns, statements))
        return stages

    def _overdetermined(self) -> OverdeterminedError:
        conflicts = [self.matching.overdetermined_set(s) for s in self.matching.surplus_equations]
        statements, variables = min(conflicts, key=lambda conflict: _users(conflict[0]))
        required = [s.variable for s in statements if s.kind == "requirement"]
        own = [s.variable for s in statements if s.kind == "own"]
        if not variables:
            return self._fixed_already(required[0])
        if own:
            relations = ", ".join(self.cones.relations(name)[0].name for name in own)
            return OverdeterminedError(
                f"{' and '.join(own)} {_is(own)} fixed by {'its' if len(own) == 1 else 'their'} "
                f"own {_plural(own, 'relation')} {relations}, so that "
                f"{' and '.join(required)} cannot be required as well",
                f"take as unknown what it is computed from: {self._roots_of(own[0])}",
            )
        # An intermediate that is computed within the set is neither an equation nor a variable.
        computed = {s.variable for s in statements if s.kind == "identity"}
        names = [name for name in variables if name not in computed]
        return OverdeterminedError(
            f"{len(required)} requirements depend only on {_count(names, 'variable')} "
            f"{', '.join(names)}: {', '.join(required)}",
            f"drop one of {', '.join(required)}, or add an unknown that only one of them depends on",
        )

    def _fixed_already(self, name: str) -> OverdeterminedError:
        known = self.cones.known.difference(self.equal) | set(self.unknown)
        alone = Cones(self.registry, known, self.cones.variants, switch=self.cones.switch)
        roots = f"choose an unknown that it is computed from: {self._roots_of(name)}"
        if set(self.unknown).isdisjoint(alone.upstream(alone.definition(name))):
            return OverdeterminedError(f"{name} does not depend on {_either(self.unknown)}", roots)
        below = self.cones.upstream(self.cones.definition(name))
        through = " and ".join(n for n in below if n in self.equal)
        return OverdeterminedError(
            f"{name} cannot be required besides {through}: "
            f"it depends on {_either(self.unknown)} only through that",
            f"drop one of the two, or {roots}",
        )

    def _underdetermined(self) -> UnderdeterminedError:
        sets = [self.matching.underdetermined_set(name) for name in self.matching.free_unknowns]
        variables, statements = min(sets, key=lambda pair: len(pair[0]))
        names = [name for name in self.unknown if name in variables]
        if not statements:
            return UnderdeterminedError(
                f"no equation depends on the unknown {names[0]}",
                "; ".join(
                    [f"give {names[0]} a value, or require what is computed from it", *self.notes]
                ),
            )
        holding = [
            s.variable for s in statements if s.kind != "identity" or s.variable not in variables
        ]
        return UnderdeterminedError(
            f"{_count(names, 'unknown')} {', '.join(names)} but only "
            f"{_count(holding, 'equation')} {'depends' if len(holding) == 1 else 'depend'} on them: "
            + ", ".join(holding),
            f"give one of {', '.join(names)} a value, or require one more quantity",
        )

    def _roots_of(self, name: str) -> str:
        below = self.cones.upstream(self.cones.definition(name))
        roots = [n for n in below if n in self.registry.variables and not self.cones.needs(n)]
        shown = [n for n in roots if n not in self.unknown and n not in self.equal]
        return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")


def _users(statements: Sequence[Statement]) -> int:
    return sum(statement.kind != "identity" for statement in statements)


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _plural(names: Sequence[str], word: str) -> str:
    return word if len(names) == 1 else word + "s"


def _count(names: Sequence[str], word: str) -> str:
    return f"{len(names)} {_plural(names, word)}"
