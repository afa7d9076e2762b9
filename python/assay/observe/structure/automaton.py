"""The grammar as an automaton, and the likeliest path of kernels through it (Viterbi)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from assay.array_types import Floats, Ints
from assay.observe.structure import grammar
from assay.observe.structure.grammar import Chain, Choice, Slot
from assay.observe.structure.layout import Layout

PROLOGUE, LAYER, EPILOGUE = 0, 1, 2
"""Parts of a step that a state belongs to."""

FAR: Final = 1e9
"""The cost of what cannot be."""


@dataclass(slots=True)
class State:
    """A place in the grammar that takes kernels."""

    slot: Slot
    kind: str
    part: int
    least: float = 0.0
    most: float = 0.0


@dataclass(slots=True)
class Automaton:
    """States and the costs of going from one to the next."""

    states: list[State]
    within: Floats
    """Transitions inside a layer, or inside prologue or epilogue."""
    onward: Floats
    """All transitions inside a step."""
    enter: Floats
    """Cost of beginning a step in a state."""
    leave: Floats
    """Cost of ending a step in a state."""


@dataclass(slots=True)
class _Builder:
    states: list[State] = field(default_factory=list)
    nodes: int = 0
    jumps: list[tuple[int, int, float]] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    exits: list[tuple[int, int, float]] = field(default_factory=list)
    direct: list[tuple[int, int, float]] = field(default_factory=list)

    def node(self) -> int:
        self.nodes += 1
        return self.nodes - 1

    def state(self, slot: Slot, kind: str, part: int, least: float = 0, most: float = 0) -> int:
        self.states.append(State(slot, kind, part, least, most))
        number = len(self.states) - 1
        repeat = grammar.REPEATS.get(kind)
        if repeat is not None:
            self.direct.append((number, number, repeat))
        return number

    def chain(self, chain: Chain, first: int, last: int, part: int) -> None:
        here = first
        for position, element in enumerate(chain):
            there = last if position == len(chain) - 1 else self.node()
            if isinstance(element, Choice):
                for cost, option in element.chains:
                    if not option:
                        self.jumps.append((here, there, cost))
                        continue
                    start = self.node()
                    self.jumps.append((here, start, cost))
                    self.chain(option, start, there, part)
            else:
                self.slot(element, here, there, part)
            here = there
        if not chain:
            self.jumps.append((first, last, 0.0))

    def slot(self, slot: Slot, first: int, last: int, part: int) -> None:
        core = self.state(slot, slot.kind, part, slot.least, slot.most)
        self.entries.append((first, core, 0.0))
        self.exits.append((core, last, 0.0))
        self.jumps.append((first, last, slot.skip))
        if slot.kind in ("gemm", "moe_gemm"):
            before = self.state(slot, "before_gemm", part)
            after = self.state(slot, "after_gemm", part)
            self.entries.append((first, before, 0.1))
            self.direct += [(before, core, 0.0), (core, after, 0.0)]
            self.exits.append((after, last, 0.0))
        if slot.kind == "attention":
            before = self.state(slot, "by_attention", part)
            after = self.state(slot, "by_attention", part)
            self.entries.append((first, before, 0.3))
            self.direct += [(before, core, 0.0), (core, after, 0.0), (after, core, 2.0)]
            self.exits.append((after, last, 0.0))


def build(layout: Layout) -> Automaton:
    """The automaton of a model's steps."""
    make = _Builder()
    step_start, layer_start, layer_end, step_end = (make.node() for _ in range(4))
    layers_start, epilogue_start = make.node(), make.node()
    make.chain(grammar.PROLOGUE, step_start, layers_start, PROLOGUE)
    make.chain(grammar.layer_chain(layout), layer_start, layer_end, LAYER)
    make.chain(grammar.epilogue_chain(layout), epilogue_start, step_end, EPILOGUE)
    plain = _closed(make, [])
    joints = [(layers_start, layer_start, 0.0), (layer_end, layer_start, 0.0),
              (layer_end, epilogue_start, 0.0)]  # fmt: skip
    onward = _closed(make, joints)
    closure = _closure(make, joints)
    ends = _ends(make, closure, step_end)
    starts = _starts(make, closure, step_start)
    return Automaton(make.states, plain, onward, starts, ends)


def _closure(make: _Builder, joints: list[tuple[int, int, float]]) -> Floats:
    """The least cost of going from node to node without a kernel."""
    cost = np.full((make.nodes, make.nodes), FAR)
    np.fill_diagonal(cost, 0.0)
    for first, last, added in (*make.jumps, *joints):
        cost[first, last] = min(cost[first, last], added)
    for middle in range(make.nodes):
        np.minimum(cost, cost[:, middle, None] + cost[None, middle, :], out=cost)
    closure: Floats = np.minimum(cost, FAR)
    return closure


def _closed(make: _Builder, joints: list[tuple[int, int, float]]) -> Floats:
    """The least cost of going from state to state."""
    closure = _closure(make, joints)
    count = len(make.states)
    leave = np.full((count, make.nodes), FAR)
    for state, node, cost in make.exits:
        leave[state, node] = cost
    arrive = np.full((make.nodes, count), FAR)
    for node, state, cost in make.entries:
        arrive[node, state] = cost
    reach = np.min(leave[:, :, None] + closure[None], axis=1)
    between: Floats = np.min(reach[:, :, None] + arrive[None], axis=1)
    for first, last, cost in make.direct:
        between[first, last] = min(between[first, last], cost)
    capped: Floats = np.minimum(between, FAR)
    return capped


def _ends(make: _Builder, closure: Floats, node: int) -> Floats:
    ends = np.full(len(make.states), FAR)
    for state, leave, cost in make.exits:
        ends[state] = min(ends[state], cost + closure[leave, node])
    return ends


def _starts(make: _Builder, closure: Floats, node: int) -> Floats:
    starts = np.full(len(make.states), FAR)
    for enter, state, cost in make.entries:
        starts[state] = min(starts[state], cost + closure[node, enter])
    return starts


class Transitions:
    """Transitions that can be worth their cost, as predecessors of each state."""

    def __init__(self, costs: Floats) -> None:
        count = len(costs)
        # States in the order of the grammar have their predecessors nearby: few of many.
        possible = costs <= grammar.NEVER + 0.5
        width = max(int(possible.sum(axis=0).max()), 1)
        self.before = np.zeros((count, width), np.int64)
        self.costs = np.full((count, width), FAR)
        for state in range(count):
            sources = np.flatnonzero(possible[:, state])
            self.before[state, : len(sources)] = sources
            self.costs[state, : len(sources)] = costs[sources, state]
        self.rows = np.arange(count)

    def step(self, cost: Floats) -> tuple[Floats, Ints]:
        """Costs after one more kernel, without its emission, and the states they come from."""
        ways = cost[self.before] + self.costs
        best = ways.argmin(axis=1)
        return ways[self.rows, best], self.before[self.rows, best]


@dataclass(slots=True)
class Island:
    """Kernels to decode; states of the step that begins inside have costs of their own."""

    emissions: tuple[Floats, Floats]
    """Costs of each kernel in each state, before and after the end of a step."""
    start: tuple[Floats, Floats]
    end: tuple[Floats, Floats]
    cut: Floats
    """Cost of a step that begins with a kernel; `FAR` where none can."""


def decode(auto: Automaton, ways: Transitions, island: Island) -> tuple[Ints, Ints, float]:
    """The cheapest path: a state a kernel, 1 for kernels after the end of a step, and its cost."""
    count, width = island.emissions[0].shape
    back = np.empty((2, count, width), np.int64)
    before = island.start[0] + island.emissions[0][0]
    after = island.start[1] + island.emissions[1][0]
    for position in range(1, count):
        ending = before + auto.leave
        last = int(ending.argmin())
        begun = ending[last] + island.cut[position] + auto.enter
        before, back[0, position] = ways.step(before)
        after, back[1, position] = ways.step(after)
        fresh = begun < after
        after = np.where(fresh, begun, after)
        # States of the step before are numbered from -1 downward.
        back[1, position][fresh] = -1 - last
        before += island.emissions[0][position]
        after += island.emissions[1][position]
    before = before + island.end[0]
    after = after + island.end[1]
    side = int(after.min() <= before.min())
    state = int((after if side else before).argmin())
    total = float((after if side else before)[state])
    path, sides = np.empty(count, np.int64), np.empty(count, np.int64)
    for position in range(count - 1, -1, -1):
        path[position], sides[position] = state, side
        if position:
            state = int(back[side, position, state])
            if state < 0:
                state, side = -1 - state, 0
    return path, sides, total


def decode_layers(ways: Transitions, emissions: Floats) -> tuple[Ints, float]:
    """The cheapest path inside layers, begun and ended anywhere."""
    count, width = emissions.shape
    back = np.empty((count, width), np.int64)
    cost = emissions[0]
    for position in range(1, count):
        cost, back[position] = ways.step(cost)
        cost = cost + emissions[position]
    state = int(cost.argmin())
    total = float(cost[state])
    path = np.empty(count, np.int64)
    for position in range(count - 1, -1, -1):
        path[position] = state
        state = int(back[position, state]) if position else state
    return path, total
