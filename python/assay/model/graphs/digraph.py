"""Directed graphs as adjacency mappings: strongly connected components, topological order, simple paths, cycles.

Definitions may be nested thousands of relations deep, so nothing here recurses. `Successors` maps
every node to the nodes its edges lead to; all of those are nodes themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

Successors = Mapping[str, Sequence[str]]
Node = TypeVar("Node", bound=Hashable)


def reachable_from(starts: Iterable[str], successors: Successors) -> set[str]:
    """The starts and every node that edges lead to from them."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        for following in successors[stack.pop()]:
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return seen


def distances(start: str, successors: Successors, limit: int | None = None) -> dict[str, int]:
    """The number of edges to each node within the limit, nearest nodes first."""
    reached = {start: 0}
    frontier = [start]
    while frontier and (limit is None or reached[frontier[0]] < limit):
        following = []
        for node in frontier:
            for successor in successors[node]:
                if successor not in reached:
                    reached[successor] = reached[node] + 1
                    following.append(successor)
        frontier = following
    return reached


def strongly_connected_components(successors: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Strongly connected components, each after all its successors (Tarjan 1972).

    >>> strongly_connected_components({"a": ["b"], "b": ["a", "c"], "c": []})
    [['c'], ['a', 'b']]
    """
    components: list[list[Node]] = []
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    for root in successors:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        path.append(root)
        on_path.add(root)
        work: list[tuple[Node, Iterator[Node]]] = [(root, iter(successors[root]))]
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in number:
                    number[following] = lowest[following] = len(number)
                    path.append(following)
                    on_path.add(following)
                    work.append((following, iter(successors[following])))
                    break
                if following in on_path:
                    lowest[node] = min(lowest[node], number[following])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == number[node]:
                    component = [path.pop()]
                    while component[-1] != node:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    components.append(component[::-1])
    return components


def topological_order(successors: Successors) -> list[str]:
    """Nodes of an acyclic graph, each after all that lead to it, else as the mapping has them."""
    position = {node: index for index, node in enumerate(successors)}
    names = list(successors)
    waiting_for = dict.fromkeys(successors, 0)
    for following in successors.values():
        for node in following:
            waiting_for[node] += 1
    ready = [position[node] for node, count in waiting_for.items() if count == 0]
    order = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for following in successors[node]:
            waiting_for[following] -= 1
            if waiting_for[following] == 0:
                heapq.heappush(ready, position[following])
    return order


def simple_paths(start: str, goal: str, successors: Successors) -> Iterator[list[str]]:
    """Paths from start to goal that visit no node twice; from a node to itself, its cycles.

    A node from which the goal was not reached stays closed until one it leads to is left
    (Johnson 1975), so the time between two paths is at most linear in the graph.
    """
    path = [start]
    closed = {start}
    reopened_by: dict[str, set[str]] = {}
    work = [iter(successors[start])]
    reached = [False]
    end = [] if goal == start else [goal]
    while work:
        for following in work[-1]:
            if following == goal:
                reached[-1] = True
                yield path + end
            elif following not in closed:
                closed.add(following)
                path.append(following)
                work.append(iter(successors[following]))
                reached.append(False)
                break
        else:
            work.pop()
            node = path.pop()
            if reached.pop():
                _reopen(node, closed, reopened_by)
                if reached:
                    reached[-1] = True
            else:
                for following in successors[node]:
                    reopened_by.setdefault(following, set()).add(node)


def _reopen(node: str, closed: set[str], reopened_by: dict[str, set[str]]) -> None:
    stack = [node]
    while stack:
        current = stack.pop()
        if current in closed:
            closed.discard(current)
            stack.extend(reopened_by.pop(current, ()))


def cycles(successors: Successors) -> Iterator[list[str]]:
    """Elementary cycles, each once, from its node that the mapping has first."""
    position = {node: index for index, node in enumerate(successors)}
    pending = strongly_connected_components(successors)
    while pending:
        component = pending.pop()
        members = set(component)
        inside = {node: [n for n in successors[node] if n in members] for node in component}
        if not any(inside.values()):
            continue
        start = min(component, key=position.__getitem__)
        yield from simple_paths(start, start, inside)
        rest = {n: [f for f in inside[n] if f != start] for n in component if n != start}
        pending.extend(strongly_connected_components(rest))
