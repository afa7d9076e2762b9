"""Structural analysis of equations: maximum matching and block-triangular form.

An incidence maps each equation to the variables in it. In a maximum matching, unmatched equations
and variables show over- and under-determination (Dulmage and Mendelsohn 1958), and the strongly
connected components of the matched equations are the blocks to be solved one after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from assay.model.graphs.digraph import strongly_connected_components

Equation = TypeVar("Equation", bound=Hashable)
Unknown = TypeVar("Unknown", bound=Hashable)


class Matching(Generic[Equation, Unknown]):
    """A maximum matching of equations to the variables that they are solved for."""

    def __init__(
        self,
        incidence: Mapping[Equation, Sequence[Unknown]],
        unknowns: Iterable[Unknown],
        first: Mapping[Equation, Unknown] | None = None,
    ) -> None:
        """Match as many equations as possible, keeping to the pairs in `first` where it can."""
        self.incidence = incidence
        self.unknowns = list(unknowns)
        self.solved_for: dict[Equation, Unknown] = dict(first or {})
        self.solved_by: dict[Unknown, Equation] = {u: e for e, u in self.solved_for.items()}
        for equation in incidence:
            if equation not in self.solved_for:
                self._augment(equation)
        self._equations_of: dict[Unknown, list[Equation]] = {u: [] for u in self.unknowns}
        for equation, variables in incidence.items():
            for variable in variables:
                self._equations_of[variable].append(equation)

    @property
    def surplus_equations(self) -> list[Equation]:
        """Equations for which no variable is left."""
        return [equation for equation in self.incidence if equation not in self.solved_for]

    @property
    def free_unknowns(self) -> list[Unknown]:
        """Variables for which no equation is left."""
        return [unknown for unknown in self.unknowns if unknown not in self.solved_by]

    def overdetermined_set(self, surplus: Equation) -> tuple[list[Equation], list[Unknown]]:
        """A smallest set of equations around a surplus one with one variable too few.

        Without any one of the equations, the rest could be matched.
        """
        equations = {surplus: None}
        variables: dict[Unknown, None] = {}
        queue = deque([surplus])
        while queue:
            for variable in self.incidence[queue.popleft()]:
                if variable not in variables:
                    variables[variable] = None
                    matched = self.solved_by[variable]
                    if matched not in equations:
                        equations[matched] = None
                        queue.append(matched)
        return list(equations), list(variables)

    def underdetermined_set(self, free: Unknown) -> tuple[list[Unknown], list[Equation]]:
        """A smallest set of variables around a free one with one equation too few."""
        variables = {free: None}
        equations: dict[Equation, None] = {}
        queue = deque([free])
        while queue:
            for equation in self._equations_of[queue.popleft()]:
                if equation not in equations:
                    equations[equation] = None
                    matched = self.solved_for[equation]
                    if matched not in variables:
                        variables[matched] = None
                        queue.append(matched)
        return list(variables), list(equations)

    def blocks(self) -> list[list[Equation]]:
        """Sets of equations that must be solved together, in an order in which they can be."""
        needs = {
            equation: [
                self.solved_by[variable]
                for variable in self.incidence[equation]
                if variable != own and variable in self.solved_by
            ]
            for equation, own in self.solved_for.items()
        }
        return strongly_connected_components(needs)

    def _augment(self, start: Equation) -> None:
        """Find an augmenting path that frees a variable for `start`, breadth first."""
        came_from: dict[Unknown, Equation] = {}
        queue = deque([start])
        while queue:
            equation = queue.popleft()
            for variable in self.incidence[equation]:
                if variable in came_from:
                    continue
                came_from[variable] = equation
                if variable in self.solved_by:
                    queue.append(self.solved_by[variable])
                    continue
                self._swap_along(variable, came_from)
                return

    def _swap_along(self, variable: Unknown, came_from: Mapping[Unknown, Equation]) -> None:
        while True:
            equation = came_from[variable]
            before = self.solved_for.get(equation)
            self.solved_for[equation] = variable
            self.solved_by[variable] = equation
            if before is None:
                return
            variable = before
