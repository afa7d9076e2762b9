"""Which unknowns a set of equations can fix, told from who depends on whom alone.

An incidence maps each equation to the variables in it. Everything follows from a maximum
matching: what stays unmatched shows under- and over-determination (Dulmage and Mendelsohn
1958), and the matched equations' strongly connected components are the blocks to be solved
one after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

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

    def conflict(self, surplus: Equation) -> tuple[list[Equation], list[Unknown]]:
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

    def freedom(self, free: Unknown) -> tuple[list[Unknown], list[Equation]]:
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
        return strong_components(needs)

    def _augment(self, start: Equation) -> None:
        """Find a path of swaps that frees a variable for `start`, breadth first."""
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


Node = TypeVar("Node", bound=Hashable)


def strong_components(needs: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Strongly connected components, each after all that it needs (Tarjan 1972).

    >>> strong_components({"a": ["b"], "b": ["a", "c"], "c": []})
    [['c'], ['a', 'b']]
    """
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    components: list[list[Node]] = []
    for root in needs:
        if root in number:
            continue
        work: list[tuple[Node, Iterator[Node]]] = []
        entering: Node | None = root
        while work or entering is not None:
            if entering is not None:
                number[entering] = lowest[entering] = len(number)
                path.append(entering)
                on_path.add(entering)
                work.append((entering, iter(needs[entering])))
            node, rest = work[-1]
            entering = next((n for n in rest if n not in number or n in on_path), None)
            if entering is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == number[node]:
                    start = path.index(node)
                    components.append(path[start:])
                    on_path.difference_update(path[start:])
                    del path[start:]
            elif entering in number:
                lowest[node] = min(lowest[node], number[entering])
                entering = None
    return components
