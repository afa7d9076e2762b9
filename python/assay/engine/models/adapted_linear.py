"""A linear layer with LoRA adapters: W x + B A x, with the A and B of each row's adapter."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from assay import ops
from assay.engine.models.norms import Norm
from assay.engine.models.step_buffers import AdapterBuffers, StepBuffers
from assay.engine.models.views import narrowed
from assay.runtime import Array


class AdapterFactors(NamedTuple):
    """The factors of a layer's LoRA adapters, one below the other; the first are zero."""

    a: ops.Weights
    """Of each adapter: rank by inputs."""
    b: ops.Weights
    """Of each adapter: outputs by rank, scaled."""
    adapters: int
    """How many there are, with the zero ones."""


class PlainLinear(Protocol):
    """The layer without adapters and activation."""

    @property
    def weights(self) -> ops.Weights:
        """The first matrix."""

    @property
    def rest(self) -> tuple[ops.Weights, ...]:
        """Matrices of other formats."""

    @property
    def bias(self) -> Array | None:
        """Added to the product."""

    @property
    def outputs(self) -> int:
        """Outputs of all matrices."""

    def forward(
        self,
        x: Array,
        out: Array,
        label: str,
        step: StepBuffers,
        *,
        norm: Norm | None = None,
        residual: Array | None = None,
    ) -> None:
        """Write x @ weights.T of the normed rows, plus bias and residual."""


def forward_adapted(
    plain: PlainLinear,
    factors: AdapterFactors,
    buffers: AdapterBuffers,
    x: Array,
    out: Array,
    label: str,
    step: StepBuffers,
    *,
    activation: str | None,
    norm: Norm | None,
    residual: Array | None,
) -> None:
    """Add B A x of each row's adapter to the layer, before the activation."""
    is_fused = _is_fused(factors, activation, step)
    if norm is not None and (norm.is_layer_norm or not is_fused):
        norm.forward(x, step.normed, f"{label}.norm")
        x, norm = step.normed, None
    product = narrowed(buffers.product, plain.outputs)
    low = narrowed(buffers.low, factors.b.shape[1])
    if not is_fused:
        plain.forward(x, product, label, step, residual=residual)
        _add_grouped(factors, buffers, x, low, product, out, label, step, activation=activation)
        return
    ops.lora_shrink(
        x,
        factors.a,
        buffers.indices,
        adapters_count=factors.adapters,
        norm=None if norm is None else norm.weight,
        epsilon=0.0 if norm is None else norm.epsilon,
        adapters_ready=True,
        out=low,
        label=f"{label}.lora_a",
    )
    if not plain.rest:
        ops.lora_linear(
            x,
            plain.weights,
            low,
            factors.b,
            buffers.indices,
            adapters_count=factors.adapters,
            norm=None if norm is None else norm.weight,
            epsilon=0.0 if norm is None else norm.epsilon,
            bias=plain.bias,
            activation=activation,
            residual=residual,
            out=out,
            label=label,
        )
        return
    plain.forward(x, product, label, step, norm=norm, residual=residual)
    ops.lora_expand(
        product,
        low,
        factors.b,
        buffers.indices,
        adapters_count=factors.adapters,
        activation=activation,
        adapters_ready=True,
        out=out,
        label=f"{label}.lora_b",
    )


def _is_fused(factors: AdapterFactors, activation: str | None, step: StepBuffers) -> bool:
    """Whether the step has so few rows that its adapters are two small kernels around the layer."""
    few = step.shape.num_tokens <= step.hidden.device.capabilities.fused_adapters_max_rows
    # A row's bits must not depend on how many rows there are.
    return few and not step.batch_invariant and ops.expands(factors.b.shape[1], activation)


def _add_grouped(
    factors: AdapterFactors,
    buffers: AdapterBuffers,
    x: Array,
    low: Array,
    product: Array,
    out: Array,
    label: str,
    step: StepBuffers,
    *,
    activation: str | None,
) -> None:
    """Two grouped GEMMs, their sum with the product, and the activation."""
    delta = narrowed(buffers.delta, product.shape[1])
    for name, source, weights, target in (
        ("lora_a", x, factors.a, low),
        ("lora_b", low, factors.b, delta),
    ):
        ops.grouped_linear(
            source,
            weights,
            buffers.indices,
            experts_count=factors.adapters,
            out=target,
            label=f"{label}.{name}",
            batch_invariant=step.batch_invariant,
        )
    total = out if activation is None else narrowed(buffers.total, product.shape[1])
    ops.add_residual(delta, product, out=total, label=f"{label}.lora_add")
    if activation == "swiglu":
        ops.swiglu(total, out, label=f"{label}.swiglu")
    elif activation is not None:
        ops.activate(total, activation, out, label=f"{label}.activation")
