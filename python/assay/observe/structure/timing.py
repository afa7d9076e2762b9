"""What a duration says of the operation: GEMMs take as long as their weights, the rest is short.

Reading weights and multiplying by them both take time in proportion to their number, so one scale,
nanoseconds a parameter, relates the GEMMs of a pass to each other, whatever the hardware and the
number of tokens. The scale is found by trying.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.array_types import Floats, Ints
from assay.observe.structure import grammar
from assay.observe.structure.automaton import State

_OVERHEAD_NS: Final = 2500.0
"""What a GEMM takes besides its weights: launch ramp, first loads, epilogue."""
_SPREAD: Final = 0.5
"""Standard deviation of the logarithm of a time about the one predicted."""
_SHORT_NS: Final = 5000.0
_SHORT_SHARE: Final = 0.04
"""Elementwise kernels and norms take less than this, or than this share of a layer."""
_ATTENTION_NS: Final = 10_000.0
_SAMPLING_NS: Final = 100_000.0
_WORST: Final = 8.0

_COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")


class Timing:
    """Costs of durations in the states of an automaton."""

    def __init__(self, states: list[State], head: float) -> None:
        kinds = [state.kind for state in states]
        self.least = np.array([state.least for state in states])
        self.most = np.array([state.most for state in states])
        self.width = len(states)
        self.head = head
        self.is_gemm = np.array([kind in ("gemm", "moe_gemm") for kind in kinds]) & (self.least > 0)
        self.is_attention = np.array([kind == "attention" for kind in kinds])
        self.is_sampling = np.array([kind in ("sampling", "collect") for kind in kinds])
        long = ("gemm", "moe_gemm", "attention", "ssm_scan", "sampling", "collect", *_COLLECTIVES)
        self.is_short = np.array([kind not in long for kind in kinds])
        assert set(kinds) <= set(grammar.KINDS)

    def costs(self, durations: Floats, scale: float, layer_ns: float) -> Floats:
        """One row a kernel; `scale` is 0 where weights are not known."""
        costs = np.zeros((len(durations), self.width))
        logs = np.log(durations)[:, None]
        if scale:
            low = np.log(_OVERHEAD_NS + scale * self.least[self.is_gemm])
            high = np.log(_OVERHEAD_NS + scale * self.most[self.is_gemm])
            away = np.maximum(np.maximum(low - logs, logs - high), 0.0) / _SPREAD
            # Quadratic near the prediction, linear beyond two deviations.
            costs[:, self.is_gemm] = np.where(
                away < 2, 0.5 * away**2, np.minimum(2 * away - 2, _WORST)
            )
        short = np.log(max(_SHORT_NS, _SHORT_SHARE * layer_ns))
        costs[:, self.is_short] = np.clip((logs - short) / _SPREAD, 0.0, 5.0)
        # Between projections, the long kernel is attention.
        costs[:, self.is_attention] = np.clip(0.7 * (np.log(_ATTENTION_NS) - logs), 0.0, 2.0)
        sampling = np.log(max(_SAMPLING_NS, 0.5 * scale * self.head))
        costs[:, self.is_sampling] = np.clip((logs - sampling) / _SPREAD, 0.0, 5.0)
        return costs

    def gemm_cost(self, costs: Floats, path: Ints) -> float:
        """The part of a path's cost that its GEMMs have."""
        chosen = costs[np.arange(len(path)), path]
        return float(chosen[self.is_gemm[path]].sum())
