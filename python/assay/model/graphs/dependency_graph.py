"""The dependency graph of a registry.

Nodes are variables and constants. Every relation that defines a variable, variants included,
gives an edge from each of its inputs to that variable. Conditions (inequalities, and the
validity of approximations) compute nothing: they are attached to the variables they mention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from assay.errors import CycleError, InputError
from assay.model.graphs import digraph
from assay.model.graphs.subgraph import DIRECTIONS, Direction, Subgraph
from assay.model.language.relations import Relation

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


class PathList(list[list[str]]):
    """Paths or cycles as lists of names; `complete` is false when a limit cut the list."""

    complete: bool = True


@dataclass(frozen=True, slots=True)
class ReachableSet:
    """Names of the variables (and constants) and relations that some target uses."""

    variables: frozenset[str]
    relations: frozenset[str]


class DependencyGraph:
    """Dependencies between variables; an unknown name raises with similar names as a hint."""

    def __init__(self, registry: Declarations) -> None:
        """Read the edges off the registry's relations."""
        self.registry = registry
        self.nodes: tuple[str, ...] = (*registry.constants, *registry.variables)
        successors: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        predecessors: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        self.users: dict[str, list[Relation]] = {name: [] for name in self.nodes}
        for relation in registry.equations.values():
            for name in relation.inputs:
                successors[name][relation.variable] = None
                predecessors[relation.variable][name] = None
                self.users[name].append(relation)
        self.successors: dict[str, tuple[str, ...]] = {n: tuple(s) for n, s in successors.items()}
        self.predecessors: dict[str, tuple[str, ...]] = {
            n: tuple(s) for n, s in predecessors.items()
        }

    def subgraph(
        self, variable: str, direction: Direction = "up", depth: int | None = None
    ) -> Subgraph:
        """What a variable is computed from (`up`), what depends on it (`down`), or both.

        `depth` limits the number of relations between the variable and what is listed.
        """
        self.registry.variable(variable)
        if direction not in DIRECTIONS:
            raise InputError(f'unknown direction "{direction}"', f"one of: {', '.join(DIRECTIONS)}")
        if depth is not None and depth < 0:
            raise InputError(f"depth of a subgraph: expected 0 or more, got {depth}")
        inside: set[str] = {variable}
        used: dict[str, Relation] = {}
        if direction in ("up", "both"):
            near = digraph.distances(variable, self.predecessors, depth)
            inside.update(near)
            for name, distance in near.items():
                if depth is None or distance < depth:
                    used.update((r.name, r) for r in self._definitions(name))
        if direction in ("down", "both"):
            near = digraph.distances(variable, self.successors, depth)
            inside.update(near)
            for name, distance in near.items():
                if depth is None or distance < depth:
                    used.update((r.name, r) for r in self.users[name])
        return self._subgraph(variable, direction, depth, inside, used)

    def _subgraph(
        self,
        center: str,
        direction: Direction,
        depth: int | None,
        inside: set[str],
        used: dict[str, Relation],
    ) -> Subgraph:
        registry, rank = self.registry, self._rank
        names = sorted(inside, key=rank.__getitem__)
        relations = sorted(used.values(), key=lambda r: (rank[r.variable], r.position))
        attached = [c for c in registry.constraints.values() if inside.issuperset(c.inputs)]
        return Subgraph(
            registry=registry,
            center=center,
            direction=direction,
            depth=depth,
            variables={n: registry.variables[n] for n in names if n in registry.variables},
            constants={n: registry.constants[n] for n in names if n in registry.constants},
            relations={r.name: r for r in (*relations, *attached)},
        )

    def _definitions(self, name: str) -> tuple[Relation, ...]:
        variable = self.registry.variables.get(name)
        return () if variable is None else variable.defining_equations

    def ancestors(self, name: str) -> set[str]:
        """Every variable and constant that a variable is computed from."""
        return self._reachable(name, self.predecessors)

    def descendants(self, name: str) -> set[str]:
        """Every variable that is computed from a variable or constant."""
        return self._reachable(name, self.successors)

    def _reachable(self, name: str, neighbors: dict[str, tuple[str, ...]]) -> set[str]:
        # Starting from the neighbors leaves the name itself out, unless a cycle leads back.
        self.registry.variable(name)
        return digraph.reachable_from(neighbors[name], neighbors)

    def downstream_relations(self, name: str, *, conditions: bool = False) -> set[str]:
        """Names of the relations whose outcome depends on a variable.

        With `conditions`, also the inequalities, and the approximations whose validity, depends
        on it.
        """
        affected = {name} | self.descendants(name)
        names = {relation.name for node in affected for relation in self.users[node]}
        if conditions:
            names.update(relation.name for relation in self.conditions_on(affected))
        return names

    def conditions_on(self, names: Iterable[str]) -> list[Relation]:
        """Inequalities and approximations whose condition mentions one of the variables."""
        by_position = {
            r.position: r for name in dict.fromkeys(names) for r in self._conditions.get(name, ())
        }
        return [by_position[position] for position in sorted(by_position)]

    def dependent_counts(self) -> dict[str, int]:
        """For every variable and constant, the number of its downstream relations."""
        # One bit per relation: the union of two sets of relations is one operation.
        rows: dict[str, int] = {}
        for component in digraph.strongly_connected_components(self.successors):
            row = 0
            for name in component:
                for relation in self.users[name]:
                    row |= 1 << relation.position | rows.get(relation.variable, 0)
            rows.update(dict.fromkeys(component, row))
        return {name: rows[name].bit_count() for name in self.nodes}

    def roots(self, variable: str | None = None) -> tuple[str, ...]:
        """Variables that nothing defines: all, or those that a variable is computed from."""
        if variable is None:
            return self.registry.roots
        cone = self.ancestors(variable) | {variable}
        return tuple(name for name in self.registry.roots if name in cone)

    def leaves(self) -> tuple[str, ...]:
        """Variables that no other variable is computed from."""
        return tuple(name for name in self.registry.variables if not self.successors[name])

    def families(self) -> dict[str, tuple[str, ...]]:
        """Variables by family, both in the order of declaration."""
        members: dict[str, list[str]] = {}
        for name, variable in self.registry.variables.items():
            members.setdefault(variable.family, []).append(name)
        return {family: tuple(names) for family, names in members.items()}

    def paths(self, source: str, target: str, limit: int = 1000) -> PathList:
        """Paths from one variable to one that is computed from it, none visiting a name twice."""
        self.registry.variable(source)
        self.registry.variable(target)
        if source == target:
            return PathList([[source]])
        return _limited(digraph.simple_paths(source, target, self.successors), limit)

    def find_cycles(self, limit: int = 1000) -> PathList:
        """Elementary cycles outside simultaneous blocks, each from an input to what it defines.

        A declared block counts as one node: a cycle through it lists the member it enters by
        and, where that is another, the member it leaves by.
        """
        cut = _limited(digraph.cycles(self._contracted), limit)
        cycles = PathList(self._expanded(cycle) for cycle in cut)
        cycles.complete = cut.complete
        return cycles

    def topological_sort(self) -> list[str]:
        """Constants and variables, each after all it is computed from; blocks stay together."""
        cycle = next(digraph.cycles(self._contracted), None)
        if cycle is not None:
            names = self._expanded(cycle)
            raise CycleError(
                f"cyclic definition: {' <- '.join([names[0], *reversed(names)])}",
                "drop one of these definitions, or declare a simultaneous block",
            )
        return sorted(self.nodes, key=self._rank.__getitem__)

    def reachable(self, targets: Sequence[str] | None = None) -> ReachableSet:
        """Everything that resolving the targets (by default all declared ones) uses or checks.

        Under any choice of variants: what the targets are computed from; the validity of the
        approximations involved; the inequalities that mention any of these variables; and what all
        of those conditions are computed from.
        """
        names = self.registry.targets if targets is None else targets
        for name in names:
            self.registry.variable(name)
        needs = self._needs
        cone = digraph.reachable_from(names, needs)
        constraints = [
            c for c in self.registry.constraints.values() if not cone.isdisjoint(c.inputs)
        ]
        cone |= digraph.reachable_from((n for c in constraints for n in c.inputs), needs)
        used = {r.name for name in cone for r in self._definitions(name)}
        return ReachableSet(frozenset(cone), frozenset(used.union(c.name for c in constraints)))

    @cached_property
    def _needs(self) -> dict[str, tuple[str, ...]]:
        """Inputs of every variable, and what its approximations' validity mentions."""
        return {
            name: (
                *self.predecessors[name],
                *(n for r in self._definitions(name) for n in r.part_variables("valid")),
            )
            for name in self.nodes
        }

    @cached_property
    def _conditions(self) -> dict[str, list[Relation]]:
        """Relations with a condition, by each variable it mentions."""
        by_name: dict[str, list[Relation]] = {}
        for relation in self.registry.relations.values():
            mentioned = relation.part_variables("valid")
            if relation.name in self.registry.constraints:
                mentioned = relation.inputs
            for name in mentioned:
                by_name.setdefault(name, []).append(relation)
        return by_name

    @cached_property
    def _block(self) -> dict[str, str]:
        """The node that stands for each node: the first member of its block, else itself."""
        first = {name: block.members[0] for name, block in self.registry.block_of.items()}
        return {name: first.get(name, name) for name in self.nodes}

    @cached_property
    def _crossing(self) -> dict[tuple[str, str], tuple[str, str]]:
        """For two blocks edges by an edge, the first edge that joins them."""
        edges: dict[tuple[str, str], tuple[str, str]] = {}
        for source in self.nodes:
            for target in self.successors[source]:
                ends = (self._block[source], self._block[target])
                if ends[0] != ends[1] or source not in self.registry.block_of:
                    edges.setdefault(ends, (source, target))
        return edges

    @cached_property
    def _contracted(self) -> dict[str, list[str]]:
        """Edges between blocks."""
        successors: dict[str, list[str]] = {block: [] for block in self._block.values()}
        for source, target in self._crossing:
            successors[source].append(target)
        return successors

    def _expanded(self, cycle: list[str]) -> list[str]:
        """A cycle of blocks as the names it passes."""
        names: list[str] = []
        for before, block, after in zip(
            cycle[-1:] + cycle, cycle, cycle[1:] + cycle[:1], strict=False
        ):
            enters_by = self._crossing[before, block][1]
            leaves_by = self._crossing[block, after][0]
            names += [enters_by] if enters_by == leaves_by else [enters_by, leaves_by]
        return names

    @cached_property
    def _rank(self) -> dict[str, int]:
        """Topological rank of every node; members of a cycle are consecutive."""
        group: dict[str, str] = {}
        for component in digraph.strongly_connected_components(self._contracted):
            group.update(dict.fromkeys(component, component[0]))
        group_of = {name: group[self._block[name]] for name in self.nodes}
        edges: dict[str, dict[str, None]] = {group_name: {} for group_name in group_of.values()}
        for source in self.nodes:
            for target in self.successors[source]:
                if group_of[source] != group_of[target]:
                    edges[group_of[source]][group_of[target]] = None
        members: dict[str, list[str]] = {}
        for name in self.nodes:
            members.setdefault(group_of[name], []).append(name)
        order = digraph.topological_order(
            {name: tuple(following) for name, following in edges.items()}
        )
        names = (name for group_name in order for name in members[group_name])
        return {name: index for index, name in enumerate(names)}


def _limited(every: Iterable[list[str]], limit: int) -> PathList:
    if limit < 0:
        raise InputError(f"limit: expected 0 or more, got {limit}")
    paths = PathList(islice(every, limit + 1))
    if len(paths) > limit:
        paths.pop()
        paths.complete = False
    return paths
