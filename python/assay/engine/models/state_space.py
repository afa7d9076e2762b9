"""A Mamba-2 mixer as a layer of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay import ops
from assay.engine.models.layers import Block, Linear
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import StepBuffers
from assay.errors import InputError
from assay.lazy_import import np
from assay.runtime import Array

if TYPE_CHECKING:
    import numpy.typing as npt


def taps_first(filters: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Filters of channels by 1 by taps as taps by channels, so that neighbors are contiguous."""
    return np.ascontiguousarray(filters.reshape(filters.shape[0], -1).T)


class StateSpace(NamedTuple):
    """Input projection, causal convolution, selective scan, gated norm and output projection.

    A sequence has one block of the cache, whose number is the slot of its states: the inputs of the
    convolution before its next token are in the place of keys, the state of the scan in that of
    values.
    """

    input: Linear
    convolution: Array
    """Taps by channels."""
    convolution_bias: Array | None
    a_log: Array
    d: Array
    dt_bias: Array
    norm: Norm
    output: Linear
    groups: int
    dt_limit: tuple[float, float]

    def forward(self, step: StepBuffers, layer: int, label: str, block: Block) -> None:
        """Write `step.attention_residual`: the residual stream plus the mixer over it."""
        buffers = step.state_space
        if buffers is None:
            raise InputError("state-space layer: expected its buffers, got none")
        self.input.forward(
            step.hidden, buffers.projected, f"{label}.in", step, norm=block.attention_norm
        )
        ops.causal_convolution(
            buffers.projected,
            self.convolution,
            self.convolution_bias,
            buffers.slots,
            step.query_start_loc,
            step.seq_lens,
            step.key_caches[layer],
            first=step.attention_output.shape[1],
            out=buffers.convolved,
            label=f"{label}.convolution",
        )
        ops.selective_scan(
            buffers.projected,
            buffers.convolved,
            self.a_log,
            self.d,
            self.dt_bias,
            buffers.slots,
            step.query_start_loc,
            step.seq_lens,
            step.value_caches[layer],
            groups=self.groups,
            dt_limit=self.dt_limit,
            batch_invariant=step.batch_invariant,
            out=step.attention_output,
            label=f"{label}.scan",
        )
        self.output.forward(
            step.attention_output,
            step.attention_residual,
            f"{label}.out",
            step,
            norm=self.norm,
            residual=step.hidden,
        )
