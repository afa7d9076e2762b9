"""Kernels aligned with the grammar of a step: every kernel gets a step, a layer and a slot.

What repeats is decoded once: inside a run of equal layers the path repeats with them. Decoded are the
islands between: the end of one pass and the beginning of the next, or a break inside a pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from assay.array_types import Flags, Floats, Ints
from assay.observe.structure import automaton, grammar
from assay.observe.structure.automaton import EPILOGUE, FAR, LAYER, PROLOGUE, Automaton, Island
from assay.observe.structure.layout import Layout
from assay.observe.structure.names import CLASS_CODES
from assay.observe.structure.passes import Run
from assay.observe.structure.sequence import Names, Sequence
from assay.observe.structure.timing import Timing

_Kind = tuple[bytes, int, int]

_SCALES: Final = np.geomspace(0.03, 1.2, 12)
"""Shares of a layer's time that its weights may take; which one is found by trying."""
_SAMPLE: Final = 4
"""Periods of a run that its path is found on; that of an inner one repeats."""
_LIES: Final = 1.3
"""Mean cost of names that are not believed: names that say nothing cost 1."""
_FITS: Final = 2.0
"""Cost of GEMM times a layer up to which order and durations alone explain a pass."""
_RECURS: Final = 1.5
"""Cost of a kernel of the layers outside them."""
_DIFFERS: Final = 2.0
"""Cost of a kernel at the edge of a run whose state is not that of its equals inside."""
_CUT: Final = 1.0
_GAPS: Final = (0.0, 0.8, 1.6)
"""What an idle gap before a kernel says for the start of a step: none, some, a long one."""
_TRUNCATED: Final = 4.0
"""Cost of a trace that begins inside a step."""


@dataclass(slots=True)
class Alignment:
    """One entry a kernel of a sequence; -1 where there is none."""

    states: Ints
    passes: Ints
    """Number of the forward pass; -1 before the first."""
    layers: Ints
    misfit: Floats
    """Cost of the name in its slot."""
    automaton: Automaton
    believed: bool
    """Whether the classes of names were used."""
    cost: float
    scales: list[float] = field(default_factory=list)
    """Nanoseconds a parameter takes, by pass."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Kernels to decode, or kernels of a run whose path repeats."""

    first: int
    stop: int
    passes: tuple[int, int]
    """Passes before and after it; the same one inside a pass."""
    run: Run | None
    """The run that is repeated, or the one after kernels that are decoded."""
    repeats: bool


class Aligner:
    """Aligns the sequences of one trace; what was decoded once is remembered."""

    def __init__(self, names: Names, layout: Layout) -> None:
        self.names = names
        self.layout = layout
        self.automaton = automaton.build(layout)
        states = self.automaton.states
        self.ways = automaton.Transitions(self.automaton.onward)
        self.kinds = np.array([grammar.KIND_CODES[state.kind] for state in states])
        self.parts = np.array([state.part for state in states])
        self.timing = Timing(states, layout.parameters.get("lm_head", 0.0))
        norms = [grammar.KIND_CODES[kind] for kind in ("norm", "all_reduce", "all_gather")]
        self.recurs = np.where((self.parts == LAYER) | np.isin(self.kinds, norms), 0.0, _RECURS)
        self.by_name = self._name_costs(names.classes, names.further)
        self.believed = True
        self.weights = self._layer_weights()
        self.decoded: dict[tuple[object, ...], tuple[Ints, Ints, float]] = {}
        self.fitted: dict[bytes, tuple[float, float]] = {}
        self.tiles: dict[bytes, Ints] = {}

    def _name_costs(self, classes: Ints, further: list[tuple[int, ...]]) -> Floats:
        table = grammar.name_costs()
        costs = table[classes]
        for row, codes in enumerate(further):
            for code in codes:
                costs[row] = np.minimum(costs[row], table[code])
        return costs[:, self.kinds]

    def _layer_weights(self) -> float:
        """Parameters a layer reads at least."""
        parameters = self.layout.parameters
        totals = []
        for kind in self.layout.kinds:
            used: tuple[str, ...] = ("o_proj", "qkv_proj", "q_a_proj", "kv_a_proj", "q_b_proj")
            if kind.mixer == "linear":
                used = ("ssm_in_proj", "ssm_out_proj")
            total = sum(parameters.get(name, 0.0) for name in used)
            if kind.mlp == "dense":
                total += sum(parameters.get(name, 0.0) for name in ("gate_up_proj", "down_proj"))
            else:
                expert = sum(parameters.get(n, 0.0) for n in ("experts_gate_up", "experts_down"))
                total += expert * self.layout.experts_per_token
            totals.append(total)
        return min(totals)

    def align(self, sequence: Sequence, passes: list[list[Run]]) -> Alignment:
        """Decode a sequence whose forward passes are known."""
        self._check_names(sequence, passes)
        scales = [self._scale(sequence, pass_) for pass_ in passes]
        layer_ns = [self._layer_ns(sequence, pass_) for pass_ in passes]
        inside = self._inside(len(sequence), passes)
        of_layers = np.zeros(int(sequence.codes.max()) + 1, bool)
        of_layers[sequence.codes[inside]] = True
        recurs = of_layers[sequence.codes]
        stretches = self._stretches(len(sequence), passes)
        sizes = [round(float(np.log2(max(ns, 1.0)))) for ns in layer_ns]
        kinds = [self._kind(sequence, stretch, sizes) for stretch in stretches]
        typical = self._typical(sequence, stretches, kinds)
        tiles = {
            run: self._tile(sequence, run, scale, ns)
            for pass_, scale, ns in zip(passes, scales, layer_ns, strict=True)
            for run in pass_
        }
        equals = np.full(len(sequence), -1, np.int64)
        for run, tile in tiles.items():
            equals[run.start : run.stop] = np.resize(tile, run.stop - run.start)
        path = np.empty(len(sequence), np.int64)
        number = np.empty(len(sequence), np.int64)
        total = 0.0
        for stretch, kind in zip(stretches, kinds, strict=True):
            where = slice(stretch.first, stretch.stop)
            if stretch.repeats and stretch.run is not None:
                path[where] = np.resize(tiles[stretch.run], stretch.stop - stretch.first)
                number[where] = stretch.passes[0]
                continue
            last = int(path[stretch.first - 1]) if stretch.first else -1
            following = -1 if stretch.run is None else int(tiles[stretch.run][0])
            inner = stretch.passes[0] == stretch.passes[1]
            key = (kind, equals[where].tobytes(), last, following, inner)
            if key not in self.decoded:
                pair = [max(min(side, len(passes) - 1), 0) for side in stretch.passes]
                self.decoded[key] = self._island(
                    sequence, stretch, typical[kind], inside[where], recurs[where], equals[where],
                    [(scales[side], layer_ns[side]) for side in pair], last, following,
                )  # fmt: skip
            decoded, sides, cost = self.decoded[key]
            path[where] = decoded
            number[where] = np.where(sides == 1, stretch.passes[1], stretch.passes[0])
            total += cost
        return self._alignment(sequence, path, number, scales, total)

    def _stretches(self, length: int, passes: list[list[Run]]) -> list[_Stretch]:
        """The sequence as islands and repetitions in turn."""
        stretches: list[_Stretch] = []
        here, before = 0, -1
        for number, pass_ in enumerate(passes):
            for run in pass_:
                # A run's first and last periods are decoded with what is next to them.
                periods = (run.stop - run.start) // run.period
                edge = min(2, (periods - 1) // 2)
                first = run.start + edge * run.period
                last = run.start + (periods - edge) * run.period
                if first < here:
                    continue
                stretches.append(_Stretch(here, first, (before, number), run, False))
                stretches.append(_Stretch(first, last, (number, number), run, True))
                here, before = last, number
        stretches.append(_Stretch(here, length, (before, len(passes)), None, False))
        return [stretch for stretch in stretches if stretch.stop > stretch.first]

    def _inside(self, length: int, passes: list[list[Run]]) -> Flags:
        """Kernels that are of a layer for certain: all of a run but its first and last period."""
        inside = np.zeros(length, bool)
        for pass_ in passes:
            for run in pass_:
                inside[run.start + run.period : run.stop - run.period] = True
        return inside

    def _kind(self, sequence: Sequence, stretch: _Stretch, sizes: list[int]) -> _Kind:
        """Stretches of one kind have one path: equal names in equal order, and about equal times.

        Grids, and with them identities, change with every number of tokens.
        """
        pair = [sizes[max(min(side, len(sizes) - 1), 0)] for side in stretch.passes]
        return sequence.names[stretch.first : stretch.stop].tobytes(), pair[0], pair[1]

    def _typical(
        self, sequence: Sequence, stretches: list[_Stretch], kinds: list[_Kind]
    ) -> dict[_Kind, Floats]:
        """Median durations of equal islands: one slow kernel does not change an alignment."""
        members: dict[_Kind, list[_Stretch]] = {}
        for stretch, kind in zip(stretches, kinds, strict=True):
            if not stretch.repeats:
                members.setdefault(kind, []).append(stretch)
        return {
            kind: np.maximum(
                np.median(np.stack([sequence.dur[s.first : s.stop] for s in equal[:33]]), axis=0),
                1.0,
            )
            for kind, equal in members.items()
        }

    def _named(self, names: Ints) -> Floats:
        return (self.by_name if self.believed else self._blind())[names]

    def _blind(self) -> Floats:
        """Name costs that know copies, memsets and collectives only."""
        classes = self.names.classes.copy()
        known = [CLASS_CODES[name] for name in ("all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "send_recv")]  # fmt: skip
        kernel = np.array([kind == "kernel" for kind in self.names.kinds], bool)
        classes[kernel & ~np.isin(classes, known)] = CLASS_CODES["unknown"]
        return self._name_costs(classes, [])

    def _longest(self, pass_: list[Run]) -> Run:
        return max(pass_, key=lambda run: run.stop - run.start)

    def _layer_ns(self, sequence: Sequence, pass_: list[Run]) -> float:
        run = self._longest(pass_)
        return float(sequence.dur[run.start : run.stop].sum()) / max(run.layers, 1.0)

    def _scale(self, sequence: Sequence, pass_: list[Run]) -> float:
        """Nanoseconds a parameter takes in a pass: the one that fits its GEMMs best."""
        if not self.weights:
            return 0.0
        run = self._longest(pass_)
        key = sequence.names[run.start : run.start + run.period].tobytes()
        layer_ns = self._layer_ns(sequence, pass_)
        if key not in self.fitted:
            self.fitted[key] = (self._fit(sequence, run)[0], layer_ns)
        scale, fitted_ns = self.fitted[key]
        # More tokens take the same kernels longer.
        return scale * layer_ns / fitted_ns

    def _sample(self, sequence: Sequence, run: Run) -> tuple[Floats, Floats]:
        """Costs of names and durations of some periods; each place has its median over the run."""
        periods = (run.stop - run.start) // run.period
        table = sequence.dur[run.start : run.start + periods * run.period]
        median = np.maximum(np.median(table.reshape(periods, run.period), axis=0), 1.0)
        named = self._named(sequence.names[run.start : run.start + run.period])
        named = named + np.where(self.parts == LAYER, 0.0, FAR)
        return np.tile(named, (_SAMPLE, 1)), np.tile(median, _SAMPLE)

    def _fit(self, sequence: Sequence, run: Run) -> tuple[float, float, float]:
        """The best scale, the cost of GEMM times a layer, and that of names a kernel."""
        named, durations = self._sample(sequence, run)
        layers = _SAMPLE * max(run.layers * run.period / (run.stop - run.start), 1.0)
        layer_ns = float(durations.sum()) / layers
        best = (0.0, np.inf, 0.0, 0.0)
        rows = np.arange(len(durations))
        for share in _SCALES:
            scale = layer_ns / self.weights * share
            timed = self.timing.costs(durations, scale, layer_ns)
            path, cost = automaton.decode_layers(self.ways, named + timed)
            if cost < best[1]:
                gemms = self.timing.gemm_cost(timed, path) / layers
                best = (scale, cost, gemms, float(named[rows, path].mean()))
        return best[0], best[2], best[3]

    def _tile(self, sequence: Sequence, run: Run, scale: float, layer_ns: float) -> Ints:
        """The path of one period of a run, from its start."""
        key = sequence.names[run.start : run.start + run.period].tobytes()
        if key not in self.tiles:
            named, durations = self._sample(sequence, run)
            timed = self.timing.costs(durations, scale, layer_ns)
            path, _ = automaton.decode_layers(self.ways, named + timed)
            self.tiles[key] = path[run.period : 2 * run.period]
        return self.tiles[key]

    def _check_names(self, sequence: Sequence, passes: list[list[Run]]) -> None:
        """Stop to believe names that contradict the order of kernels, if durations explain it."""
        if not self.weights or not self.believed or self.decoded or not passes:
            return
        longest = max(passes, key=lambda pass_: pass_[-1].stop - pass_[0].start)
        run = self._longest(longest)
        _, _, names = self._fit(sequence, run)
        if names <= _LIES:
            return
        self.believed = False
        _, gemms, _ = self._fit(sequence, run)
        self.believed = gemms > _FITS

    def _island(
        self,
        sequence: Sequence,
        stretch: _Stretch,
        durations: Floats,
        inside: Flags,
        recurs: Flags,
        equals: Ints,
        times: list[tuple[float, float]],
        last: int,
        following: int,
    ) -> tuple[Ints, Ints, float]:
        """The path of kernels between the states `last` and `following`; -1 where there is none."""
        where = slice(stretch.first, stretch.stop)
        named = self._named(sequence.names[where]) + recurs[:, None] * self.recurs
        named[np.ix_(inside, self.parts != LAYER)] = FAR
        known = np.flatnonzero(equals >= 0)
        named[known] += _DIFFERS
        named[known, equals[known]] -= _DIFFERS
        emissions = [named + self.timing.costs(durations, *time) for time in times]
        width = len(self.parts)
        never, free = np.full(width, FAR), np.zeros(width)
        in_layer = np.where(self.parts == LAYER, 0.0, FAR)
        start = (never if last < 0 else self.automaton.onward[last], never)
        if last < 0:
            inner = np.where(self.parts == PROLOGUE, FAR, _TRUNCATED)
            start = (inner, np.minimum(self.automaton.enter, inner + in_layer))
        cut = self._cuts(sequence, where)
        end = (free, free)
        if following >= 0:
            end = (never, self.automaton.onward[:, following])
        if stretch.passes[0] == stretch.passes[1]:
            cut, end = np.full(len(durations), FAR), (end[1], never)
        island = Island((emissions[0], emissions[1]), start, end, cut)
        return automaton.decode(self.automaton, self.ways, island)

    def _cuts(self, sequence: Sequence, where: slice) -> Floats:
        """Cost of a step that begins with a kernel: less after an idle gap, none in a replay."""
        gap = sequence.gap[where]
        usual = max(float(np.median(gap)), 1000.0)
        costs = _CUT - np.array(_GAPS)[np.digitize(gap, [8 * usual, 40 * usual])]
        replay = sequence.replay[where]
        costs[1:][(replay[1:] == replay[:-1]) & (replay[1:] >= 0)] = FAR
        return costs

    def _alignment(
        self, sequence: Sequence, path: Ints, number: Ints, scales: list[float], total: float
    ) -> Alignment:
        parts = self.parts[path]
        before = np.concatenate((path[:1], path[:-1]))
        new_pass = np.concatenate(([True], number[1:] != number[:-1]))
        auto = self.automaton
        crossed = auto.onward[before, path] < auto.within[before, path] - 1e-6
        from_outside = np.concatenate(([True], parts[:-1] != LAYER))
        in_layer = parts == LAYER
        enters = in_layer & (crossed | new_pass | from_outside)
        count = np.cumsum(enters)
        first = np.maximum.accumulate(np.where(new_pass, np.arange(len(path)), 0))
        layers = np.where(in_layer, count - (count - enters)[first] - 1, -1)
        if len(scales):
            self._count_from_end(parts, number, layers)
        misfit = (self.by_name if self.believed else self._blind())[sequence.names, path]
        return Alignment(path, number, layers, misfit, auto, self.believed, total, scales)

    def _count_from_end(self, parts: Ints, number: Ints, layers: Ints) -> None:
        """Number the layers of a first step that the trace cuts off from the last one."""
        if parts[0] != LAYER:
            return
        member = number == number[0]
        if not (parts[member] == EPILOGUE).any():
            return
        missing = len(self.layout.layers) - int(layers[member].max()) - 1
        if missing > 0:
            layers[member & (layers >= 0)] += missing
