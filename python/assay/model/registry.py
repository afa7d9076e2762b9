"""The registry: all declarations, checked, and the questions one asks of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.answers import data_of
from assay.model.declarations import Declarations
from assay.model.language.variables import Constant, Variable

if TYPE_CHECKING:
    from assay.model.graphs.dependency_graph import DependencyGraph
    from assay.model.inputs import Given, Inputs
    from assay.model.language.scope import Scope
    from assay.model.optimizing.optimize import Optimum
    from assay.model.resolving.resolution import Resolution
    from assay.model.solving.solve import Solution
    from assay.model.tapes.compile import Compiled


class Registry(Declarations):
    """The declarations of an ordered list of scopes, with resolve, solve, compile and minimize.

    The methods import their parts on first use, so that a question loads only what it needs.
    """

    @classmethod
    def from_scopes(cls, scopes: Sequence[Scope]) -> Registry:
        """Build a registry from declarations and check all of it.

        Raises DeclarationError or UnitError at the first declaration that does not hold.
        """
        registry = cls({"scopes": [_scope_data(scope) for scope in scopes]})
        registry.check()
        return registry

    def check(self) -> None:
        """Check references, order of scopes and units of everything declared."""
        from assay.model.load_checks import check_registry

        check_registry(self)

    @cached_property
    def graph(self) -> DependencyGraph:
        """The graph of variables and relations."""
        from assay.model.graphs.dependency_graph import DependencyGraph

        return DependencyGraph(self)

    def resolve(
        self,
        target: str,
        given: Inputs | Mapping[str, Given] | None = None,
        variants: Mapping[str, str] | None = None,
        *,
        switch: bool = True,
        intervals: bool = True,
    ) -> Resolution:
        """Compute a variable, with trace, missing inputs, constraints and conflicts."""
        from assay.model.resolving.resolve import resolve

        return resolve(
            self, target, given or {}, variants or {}, switch=switch, intervals=intervals
        )

    def value(
        self,
        target: str,
        given: Inputs | Mapping[str, Given] | None = None,
        variants: Mapping[str, str] | None = None,
    ) -> float | None:
        """The value that `resolve` would find, in base units, without an account of it.

        Verdicts and conflicts look at all that is given, most of which one value does not need.
        """
        from assay.model.resolving.resolve import make_resolver

        self.variable(target)
        return make_resolver(self, given or {}, variants or {}).value(target)

    def solve(
        self,
        unknown: Sequence[str],
        given: Mapping[str, Given] | None = None,
        equal: Mapping[str, Given] | None = None,
        variants: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Solution:
        """Find the values of `unknown` at which the variables in `equal` take theirs."""
        from assay.model.solving.solve import solve

        return solve(self, unknown, given or {}, equal or {}, variants or {}, **options)

    def compile(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        given: Mapping[str, Given] | None = None,
        variants: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Compiled:
        """Lower the cone of `outputs` to a vectorized callable with exact derivatives."""
        from assay.model.tapes.compile import compile_cone

        return compile_cone(self, inputs, outputs, given or {}, variants or {}, **options)

    def minimize(
        self,
        target: str,
        over: Mapping[str, Any],
        given: Mapping[str, Given] | None = None,
        variants: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Optimum:
        """Find the choices in `over` that minimize `target` under the graph's constraints."""
        from assay.model.optimizing.optimize import minimize

        return minimize(self, target, over, given or {}, variants or {}, **options)


def _scope_data(scope: Scope) -> dict[str, Any]:
    return {
        "name": scope.name,
        "meaning": scope.meaning,
        "variables": [_variable_data(variable) for variable in scope.variables],
        "relations": scope.relations,
        "blocks": scope.blocks,
    }


def _variable_data(variable: Variable) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": variable.name, "scope": variable.scope, "symbol": variable.symbol,
        "unit": variable.unit.text, "meaning": variable.meaning,
        "reference": [variable.reference.kind, variable.reference.work, variable.reference.where],
    }  # fmt: skip
    if isinstance(variable, Constant):
        return {**facts, "value": variable.value}
    # JSON has no infinities; an open end is null.
    lower = None if variable.lower == -math.inf else variable.lower
    upper = None if variable.upper == math.inf else variable.upper
    return {
        **facts, "display": variable.display.text, "bounds": [lower, upper],
        **data_of(variable, "boundary family target library"),
        # Few variables state these, and every key of every variable is read at each start.
        **({} if variable.nature == "measure" else {"nature": variable.nature}),
        **({"cases": list(variable.cases)} if variable.cases else {}),
    }  # fmt: skip
