"""Kernels aligned with the grammar of a step: every kernel gets a step, a layer and a slot.

The trace is decoded in units that reach from the middle of one forward pass to the middle of the
next, so that each holds one end of a step; equal units are decoded once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.observe.structure import automaton, grammar
from assay.observe.structure.automaton import EPILOGUE, FAR, LAYER, PROLOGUE, Automaton
from assay.observe.structure.layout import Layout
from assay.observe.structure.names import CLASS_CODES
from assay.observe.structure.passes import Run
from assay.observe.structure.sequence import Names, Sequence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_OVERHEAD_NS: Final = 2500.0
"""What a GEMM takes besides reading its weights: launch ramp, first loads, epilogue."""
_SPREAD: Final = 0.5
"""Standard deviation of the logarithm of a GEMM's time about the one its weights predict."""
_SCALES: Final = np.geomspace(0.03, 1.2, 16)
"""Shares of a layer's time that its weights may take; which one is found by trying."""
_SAMPLE: Final = 4
"""Periods of a pass that its scale is found on."""
_LIES: Final = 3.0
"""Cost a layer by which names may contradict durations before they are not believed."""
_CUT: Final = 1.0
_GAPS: Final = (0.0, 0.8, 1.6)
"""What an idle gap before a kernel says for the start of a step: none, some, a long one."""
_TRUNCATED: Final = 4.0
"""Cost of a trace that begins inside a step."""


@dataclass(slots=True)
class Alignment:
    """One entry a kernel of a sequence; -1 where there is none."""

    states: Ints
    steps: Ints
    layers: Ints
    misfit: Floats
    """Cost of the name in its slot."""
    automaton: Automaton
    believed: bool
    """Whether the classes of names were used."""
    first_complete: bool
    """Whether the first step begins inside the trace."""
    cost: float
    scales: list[float] = field(default_factory=list)


class Aligner:
    """Aligns the sequences of one trace; what was decoded once is remembered."""

    def __init__(self, names: Names, layout: Layout) -> None:
        self.names = names
        self.layout = layout
        self.automaton = automaton.build(layout)
        states = self.automaton.states
        self.kinds = np.array([grammar.KIND_CODES[state.kind] for state in states])
        self.parts = np.array([state.part for state in states])
        self.least = np.array([state.least for state in states])
        self.most = np.array([state.most for state in states])
        self.is_core = np.isin(
            self.kinds, [grammar.KIND_CODES[kind] for kind in ("gemm", "moe_gemm")]
        )
        self.is_attention = self.kinds == grammar.KIND_CODES["attention"]
        free = [
            grammar.KIND_CODES[kind] for kind in ("prepare", "sampling", "collect", "attention")
        ]
        self.is_small = ~self.is_core & ~np.isin(self.kinds, free)
        self.is_host = np.isin(self.kinds, free[:3])
        self.by_name = self._name_costs(names)
        self.believed = True
        self.weights = self._layer_weights()
        self.decoded: dict[tuple[bytes, int], tuple[Ints, float]] = {}
        self.scales: dict[bytes, float] = {}
        far = np.full_like(self.automaton.onward, FAR)
        onward = self.automaton.onward
        self.matrices = [
            np.block([[onward, np.minimum(self.automaton.cut + _CUT - gap, FAR)], [far, onward]])
            for gap in _GAPS
        ]
        # Inside one graph replay no step ends.
        self.matrices.append(np.block([[onward, far], [far, onward]]))

    def _name_costs(self, names: Names) -> Floats:
        table = grammar.name_costs()
        costs = table[names.classes]
        for row, further in enumerate(names.further):
            for code in further:
                costs[row] = np.minimum(costs[row], table[code])
        return costs[:, self.kinds]

    def _layer_weights(self) -> float:
        """Parameters a layer reads at least."""
        parameters, kinds = self.layout.parameters, self.layout.kinds
        totals = []
        for kind in kinds:
            used: tuple[str, ...] = (
                "o_proj",
                "qkv_proj",
                "q_a_proj",
                "kv_a_proj",
                "q_b_proj",
                "kv_b_proj",
            )
            if kind.mixer == "linear":
                used = ("ssm_in_proj", "ssm_out_proj")
            total = sum(parameters.get(name, 0.0) for name in used)
            if kind.mlp == "dense":
                total += sum(parameters.get(name, 0.0) for name in ("gate_up_proj", "down_proj"))
            else:
                one = sum(parameters.get(n, 0.0) for n in ("experts_gate_up", "experts_down"))
                total += one * self.layout.experts_per_token
            totals.append(total)
        return min(totals)

    def align(self, sequence: Sequence, passes: list[list[Run]]) -> Alignment:
        """Decode a sequence whose forward passes are known."""
        if self.weights:
            self._check_names(sequence, passes)
        scales = [self._scale(sequence, one) for one in passes]
        middles = [self._middle(one) for one in passes]
        width = len(self.parts)
        path = np.empty(len(sequence), np.int64)
        block = np.empty(len(sequence), np.int64)
        bounds = [0, *middles, len(sequence)]
        last, total = -1, 0.0
        interior = self._interior(len(sequence), passes)
        keys = [sequence.codes[a:b].tobytes() for a, b in pairwise(bounds)]
        durations = self._typical(sequence, bounds, keys)
        for number, (first, stop) in enumerate(pairwise(bounds)):
            if first == stop:
                continue
            # The last unit may end anywhere: it is not that of another step with equal kernels.
            place = -2 if number == 0 else -3 - last if number == len(passes) else last
            key = (keys[number], place)
            if key not in self.decoded:
                pair = (scales[max(number - 1, 0)], scales[min(number, len(scales) - 1)])
                self.decoded[key] = self._unit(
                    sequence, slice(first, stop), durations[keys[number]],
                    interior[first:stop], pair, last,
                    number == 0, number == len(passes),
                )  # fmt: skip
            found, unit_cost = self.decoded[key]
            total += unit_cost
            path[first:stop] = found % width
            block[first:stop] = found // width + number - 1
            last = int(path[stop - 1])
        return self._alignment(sequence, path, block, scales, total)

    def _middle(self, one: list[Run]) -> int:
        """A place inside a pass: the end of a period near its middle."""
        run = max(one, key=lambda run: run.stop - run.start)
        periods = max((run.stop - run.start) // run.period // 2, 1)
        return run.start + periods * run.period

    def _interior(self, length: int, passes: list[list[Run]]) -> NDArray[np.bool_]:
        """Kernels that are of a layer for certain: all of a run but its first and last period."""
        inside = np.zeros(length, bool)
        for one in passes:
            for run in one:
                inside[run.start + run.period : run.stop - run.period] = True
        return inside

    def _typical(
        self, sequence: Sequence, bounds: list[int], keys: list[bytes]
    ) -> dict[bytes, Floats]:
        """Median durations of equal units: one slow kernel does not change an alignment."""
        members: dict[bytes, list[int]] = {}
        for number, key in enumerate(keys):
            members.setdefault(key, []).append(number)
        found = {}
        for key, numbers in members.items():
            rows = [sequence.dur[bounds[n] : bounds[n + 1]] for n in numbers[:33]]
            found[key] = np.maximum(np.median(np.stack(rows), axis=0), 1.0)
        return found

    def _emissions(self, names: Ints, durations: Floats, scale: float) -> Floats:
        return self._named(names) + self._timed(durations, scale)

    def _named(self, names: Ints) -> Floats:
        if self.believed:
            return self.by_name[names]
        return self._blind()[names]

    def _blind(self) -> Floats:
        """Name costs that know only what a copy or a memset is."""
        table = grammar.name_costs()
        classes = self.names.classes.copy()
        classes[np.array([kind == "kernel" for kind in self.names.kinds], bool)] = CLASS_CODES[
            "unknown"
        ]
        return table[classes][:, self.kinds]

    def _timed(self, durations: Floats, scale: float) -> Floats:
        """Cost of durations in each state, given nanoseconds a parameter."""
        costs = np.zeros((len(durations), len(self.parts)))
        if not scale:
            return costs
        logs = np.log(durations)[:, None]
        core = self.is_core & (self.least > 0)
        low = np.log(_OVERHEAD_NS + scale * self.least[core])
        high = np.log(_OVERHEAD_NS + scale * self.most[core])
        away = np.maximum(np.maximum(low - logs, logs - high), 0.0) / _SPREAD
        costs[:, core] = np.where(away < 2, 0.5 * away**2, np.minimum(2 * away - 2, 8.0))
        layer = scale * self.weights
        small = np.log(max(8000.0, 0.12 * layer + 4000.0))
        over = np.clip((logs - small) / _SPREAD, 0.0, 5.0)
        costs[:, self.is_small] = over
        # Between projections, the long kernel is attention.
        shorter = np.clip(0.7 * (np.log(12_000.0) - logs), 0.0, 2.0)
        costs[:, self.is_attention] = shorter
        host = np.log(max(60_000.0, scale * self.layout.parameters.get("lm_head", 0.0)))
        costs[:, self.is_host] = 0.5 * np.clip((logs - host) / _SPREAD, 0.0, 5.0)
        return costs

    def _sample(self, sequence: Sequence, one: list[Run]) -> slice:
        run = max(one, key=lambda run: run.stop - run.start)
        middle = self._middle(one)
        return slice(max(run.start, middle - _SAMPLE * run.period), middle)

    def _scale(self, sequence: Sequence, one: list[Run]) -> float:
        """Nanoseconds a parameter takes in a pass: the one that fits its GEMMs best."""
        if not self.weights:
            return 0.0
        where = self._sample(sequence, one)
        key = sequence.codes[where].tobytes()
        if key not in self.scales:
            self.scales[key] = self._fit(sequence, one, where)[0]
        return self.scales[key]

    def _fit(
        self, sequence: Sequence, one: list[Run], where: slice
    ) -> tuple[float, float, float, float]:
        """Scale, cost of its path, the part of durations in it, and layers of the sample."""
        run = max(one, key=lambda run: run.stop - run.start)
        length = where.stop - where.start
        total = sum(piece.layers for piece in one)
        layers = length / run.period * max(1.0, round(len(self.layout.layers) / max(total, 1.0)))
        durations = np.maximum(sequence.dur[where].astype(float), 1.0)
        # Each place of the period has one duration: its median over the sample.
        periods = length // run.period
        if periods > 1 and periods * run.period == length:
            durations = np.tile(np.median(durations.reshape(periods, -1), axis=0), periods)
        most = durations.sum() / layers / self.weights
        names = sequence.names[where]
        inside = np.where(self.parts == LAYER, 0.0, FAR)
        which = np.zeros(length, np.int64)
        named = self._named(names)
        best = (0.0, np.inf, 0.0, layers)
        for share in _SCALES:
            timed = self._timed(durations, most * share)
            path, cost = automaton.decode(
                named + timed + inside, [self.automaton.onward], which, inside, inside
            )
            if cost < best[1]:
                part = float(timed[np.arange(length), path].sum())
                best = (most * share, cost, part, layers)
        return best

    def _check_names(self, sequence: Sequence, passes: list[list[Run]]) -> None:
        """Stop to believe names where durations fit far better without them."""
        if not self.believed or self.decoded or not passes:
            return
        one = max(passes, key=lambda one: one[-1].stop - one[0].start)
        where = self._sample(sequence, one)
        named = self._fit(sequence, one, where)
        self.believed = False
        blind = self._fit(sequence, one, where)
        if named[2] - blind[2] <= _LIES * named[3]:
            self.believed = True

    def _unit(
        self,
        sequence: Sequence,
        where: slice,
        durations: Floats,
        inside: NDArray[np.bool_],
        scales: tuple[float, float],
        last: int,
        is_first: bool,
        is_last: bool,
    ) -> tuple[Ints, float]:
        """The path of one unit and its cost; states of the second step are numbered after those of the first."""
        width = len(self.parts)
        names = sequence.names[where]
        named = self._named(names)
        emissions = np.concatenate([named + self._timed(durations, one) for one in scales], axis=1)
        start = np.full(2 * width, FAR)
        if is_first:
            start[width:] = self.automaton.enter
            start[:width] = np.where(self.parts == PROLOGUE, FAR, _TRUNCATED)
        else:
            start[:width] = self.automaton.onward[last]
        end = np.zeros(2 * width)
        if not is_last:
            end[:width] = FAR
            end[width:] = np.where(self.parts == LAYER, 0.0, FAR)
        if inside.any():
            emissions[np.ix_(inside, np.tile(self.parts != LAYER, 2))] = FAR
        which = self._gap_levels(sequence, where)
        return automaton.decode(emissions, self.matrices, which, start, end)

    def _gap_levels(self, sequence: Sequence, where: slice) -> Ints:
        gap = sequence.gap[where]
        usual = max(float(np.median(gap)), 1000.0)
        levels = np.digitize(gap, [8 * usual, 40 * usual]).astype(np.int64)
        replay = sequence.replay[where]
        inside = np.concatenate(([False], (replay[1:] == replay[:-1]) & (replay[1:] >= 0)))
        levels[inside] = len(_GAPS)
        return levels

    def _alignment(
        self, sequence: Sequence, path: Ints, block: Ints, scales: list[float], total: float
    ) -> Alignment:
        parts = self.parts[path]
        previous = np.concatenate((path[:1], path[:-1]))
        new_step = np.concatenate(([False], block[1:] != block[:-1]))
        in_layer = parts == LAYER
        auto = self.automaton
        crossed = auto.onward[previous, path] < auto.within[previous, path] - 1e-6
        enters = in_layer & (crossed | new_step | np.concatenate(([True], parts[:-1] != LAYER)))
        steps = block - block.min()
        count = np.cumsum(enters)
        before = np.zeros(int(steps[-1]) + 1, np.int64)
        firsts = np.flatnonzero(np.concatenate(([True], np.diff(steps) != 0)))
        before[steps[firsts]] = count[firsts] - enters[firsts]
        layers = np.where(in_layer, count - before[steps] - 1, -1)
        costs = self._named(sequence.names)
        misfit = costs[np.arange(len(path)), path]
        first_complete = bool(parts[0] == PROLOGUE or (block[0] == 0 and parts[0] != EPILOGUE))
        return Alignment(
            path, steps, layers, misfit, auto, self.believed, first_complete, total, scales
        )
