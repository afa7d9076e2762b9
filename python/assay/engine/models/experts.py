"""A mixture of experts as a layer of the model."""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.engine.architectures.decoder import Routing
from assay.engine.models.layers import Block, Linear, Mlp
from assay.engine.runner.step_buffers import StepBuffers
from assay.errors import InputError
from assay.runtime import Array


class Experts(NamedTuple):
    """Routing, grouped GEMMs of the chosen experts, and their weighted sum."""

    routing: Routing
    routing_bias: Array | None
    router: Linear
    up: Linear
    down: Linear
    shared: Mlp | None
    shared_gate: Linear | None

    @property
    def routed_bytes(self) -> int:
        """Bytes of the weights of all experts, of which a token reads a few."""
        return self.up.weights.nbytes + self.down.weights.nbytes

    def forward(self, step: StepBuffers, label: str, block: Block) -> None:
        """Write `step.hidden`: the residual stream plus the experts' sum over it."""
        buffers, norm = step.experts, block.mlp_norm
        if buffers is None or norm is None:
            raise InputError("experts: expected a norm and buffers of experts, got none")
        x = step.normed
        # Router, experts and shared experts all read the normed rows.
        norm.forward(step.attention_residual, x, f"{label}.norm")
        self.router.forward(x, buffers.logits, f"{label}.router", step)
        self._route(step, f"{label}.route")
        shared = gates = None
        if self.shared is not None:
            shared = buffers.shared_output
            self.shared.project(x, step, shared, f"{label}.shared")
        if self.shared_gate is not None:
            gates = buffers.shared_gates
            self.shared_gate.forward(x, gates, f"{label}.shared_gate", step)
        self._multiply(self.up, x, buffers.intermediate, step, f"{label}.gate_up")
        self._multiply(self.down, buffers.intermediate, buffers.outputs, step, f"{label}.down")
        ops.combine_experts(
            buffers.outputs,
            buffers.weights,
            residual=step.attention_residual,
            shared=shared,
            gates=gates,
            out=step.hidden,
            label=f"{label}.combine",
        )

    def _route(self, step: StepBuffers, label: str) -> None:
        buffers, routing = step.experts, self.routing
        assert buffers is not None
        ops.route(
            buffers.logits,
            routing.top_k,
            bias=self.routing_bias,
            sigmoid=routing.sigmoid,
            normalize=routing.normalize,
            groups=routing.groups,
            top_groups=routing.top_groups,
            top_two_groups=routing.top_two_groups,
            factor=routing.factor,
            experts_out=buffers.experts,
            weights_out=buffers.weights,
            label=label,
        )

    def _multiply(
        self, linear: Linear, x: Array, out: Array, step: StepBuffers, label: str
    ) -> None:
        buffers = step.experts
        assert buffers is not None
        ops.grouped_linear(
            x,
            linear.weights,
            buffers.experts,
            experts_count=self.routing.experts,
            bias=linear.bias,
            activation=linear.activation,
            out=out,
            label=label,
            batch_invariant=step.batch_invariant,
        )
