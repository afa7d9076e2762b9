"""A mixture of experts as a layer of the model."""

from __future__ import annotations

from typing import NamedTuple

from assay import ops
from assay.engine.architectures.decoder import Routing
from assay.engine.models.layers import Block, Linear, Mlp
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import StepBuffers
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
        fused = x.device.capabilities.fused_router_max_tokens > 0 and not norm.is_layer_norm
        # Router, experts and shared experts all read the normed rows.
        if fused:
            self._norm_and_route(step, norm, f"{label}.router")
        else:
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
        if fused:
            self._combine_down(step, shared, gates, f"{label}.down")
            return
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

    def _norm_and_route(self, step: StepBuffers, norm: Norm, label: str) -> None:
        """The norm, the router and its choice in one operation."""
        buffers, routing = step.experts, self.routing
        assert buffers is not None
        ops.router(
            step.attention_residual,
            norm.weight,
            self.router.weights,
            routing.top_k,
            epsilon=norm.epsilon,
            router_bias=self.router.bias,
            choice_bias=self.routing_bias,
            slots=step.slot_mapping,
            sigmoid=routing.sigmoid,
            normalize=routing.normalize,
            groups=routing.groups,
            top_groups=routing.top_groups,
            top_two_groups=routing.top_two_groups,
            factor=routing.factor,
            normed=step.normed,
            logits=buffers.logits,
            experts_out=buffers.experts,
            weights_out=buffers.weights,
            label=label,
            batch_invariant=step.batch_invariant,
        )

    def _combine_down(
        self, step: StepBuffers, shared: Array | None, gates: Array | None, label: str
    ) -> None:
        """The down projection and the weighted sum in one operation."""
        buffers = step.experts
        assert buffers is not None
        ops.combine_linear(
            buffers.intermediate,
            self.down.weights,
            buffers.experts,
            buffers.weights,
            experts_count=self.routing.experts,
            bias=self.down.bias,
            residual=step.attention_residual,
            shared=shared,
            gates=gates,
            expert_outputs=buffers.outputs,
            out=step.hidden,
            # The up projection stands in between, and waits for them.
            experts_ready=True,
            label=label,
            batch_invariant=step.batch_invariant,
        )

    def _route(self, step: StepBuffers, label: str) -> None:
        buffers, routing = step.experts, self.routing
        assert buffers is not None
        ops.route(
            buffers.logits,
            routing.top_k,
            bias=self.routing_bias,
            slots=step.slot_mapping,
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
