"""Parallelism of a training job, and the memory per GPU that follows."""

from __future__ import annotations

from typing import Any

from assay.model import (
    POSITIVE,
    Expression,
    Reference,
    Scope,
    Variable,
    below,
    by_definition,
    ceil,
    cited,
    equal,
    floor,
    maximum,
    minimum,
    number,
    where,
)
from assay.model.language.expression import Operand
from assay.stack import optimizer, software, works
from assay.stack.architecture import parameters, shapes
from assay.stack.gpu import rates as gpu_rates

scope = Scope("parallelism", "Parallelism and memory per GPU")

_SPLIT = cited(works.MEGATRON_CLUSTERS, "sec. 2 and 3")
_BUBBLE = cited(works.MEGATRON_CLUSTERS, "sec. 2.2")
_ZERO_BUBBLE = cited(
    "Qi, Wan, Huang and Lin 2024, Zero Bubble Pipeline Parallelism",
    "sec. 2; DeepSeek-AI 2024, DeepSeek-V3 Technical Report, Table 2",
)
_TENSOR = cited(works.MEGATRON, "sec. 3")
_ZERO = cited(works.ZERO, "sec. 3.1 and 5")
_BUFFERS = cited(works.ZERO, "sec. 3.2, temporary buffers")
_ACTIVATIONS = cited(works.ACTIVATION_RECOMPUTATION, "sec. 4")
_RECOMPUTE = cited(works.ACTIVATION_RECOMPUTATION, "sec. 5")
_COMPACT = cited(works.DEEPSEEK_V3, "sec. 3.2.3 and 3.3.3")
_CONTEXT = cited(works.RING_ATTENTION)
_LORA = cited("Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models", "sec. 4")
_EXPERTS = cited(works.GSHARD)
_EXPERT_TENSOR = cited(
    "Liu et al. 2025, MoE Parallel Folding: Heterogeneous Parallelism Mappings for Efficient "
    "Large-Scale MoE Model Training with Megatron Core",
    "sec. 3",
)
_PER_GPU = number("1 1/GPU")
_SCENARIO: Any = {"boundary": "scenario", "family": "parallelism", "nature": "count"}


def _choice(
    heading: str, reference: Reference, bounds: tuple[float | str | None, float | str | None] = (1, None)
) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=reference, **_SCENARIO)


tensor = _choice("tensor, t: tensor-parallel ranks", _TENSOR)
pipeline = _choice("pipeline, p: pipeline stages", _SPLIT)
interleave = _choice("interleave, v: virtual pipeline stages per rank (interleaved 1F1B)", _BUBBLE)
context = _choice("context, c: context-parallel ranks", _CONTEXT)
expert = _choice("expert, e: expert-parallel ranks, a subset of the data-parallel ones", _EXPERTS)
expert_tensor = scope.declare(
    "expert_tensor, t_e: tensor-parallel ranks of an expert: those of attention unless given",
    bounds=(1, None),
    equals=tensor,
    reference=_EXPERT_TENSOR,
)
micro_batch = _choice("micro_batch, b: sequences in one micro-batch", _SPLIT, POSITIVE)
zero_stage = scope.choice(
    "zero_stage, z: ZeRO stage",
    {"none": "none", "optimizer": "shards optimizer states", "gradients": "also gradients", "weights": "also weights"},
    reference=_ZERO,
    **_SCENARIO,
)
sequence_parallel = scope.flag(
    "sequence_parallel, u_s: 1: sequence parallelism of norms and residuals", reference=_ACTIVATIONS, **_SCENARIO
)
recompute = scope.choice(
    "recompute, r: activation recomputation",
    {"none": "none", "selective": "attention", "full": "every layer"},
    reference=_RECOMPUTE,
    **_SCENARIO,
)
compact = scope.flag(
    "compact, u_c: 1: activations are kept in 8 bits, and norms, activation functions and expansions of latents are "
    "computed again. Unless given, 0",
    equals=number("0"),
    reference=_COMPACT,
)
data = scope.declare("data, d: data-parallel replicas", bounds=(1, None), reference=_SPLIT, nature="count")
micro_batches = scope.declare(
    "micro_batches, m: micro-batches of a replica in one step", bounds=POSITIVE, reference=_SPLIT
)

schedule = scope.choice(
    "schedule, k_p: pipeline schedule",
    {"1f1b": "1F1B", "zb_h1": "ZB-H1 (ZB1P)", "zb_h2": "ZB-H2 or ZB-V", "dualpipe": "DualPipe"},
    default="1f1b",
    reference=_ZERO_BUBBLE,
)
_is_handcrafted = schedule.is_("zb_h1")
_is_bidirectional = schedule.is_("dualpipe")
# Bubbles are p - 1 times F + B - 2 W (ZB-H1) and F + B - 3 W (ZB-H2), and p / 2 - 1 times
# F&B + B - 3 W (DualPipe), where F is a forward pass, B a whole backward one and W its part for
# weights. A backward pass has twice the FLOPs of a forward one, half of them for weights, and passes
# that overlap take as long as both, which hides communication, not computation: F = W = B / 2.
idle_share = scope.declare(
    "idle_share, s_b: pipeline bubble of the schedule over that of 1F1B",
    equals=where(
        schedule.is_("1f1b"),
        1,
        where(
            _is_handcrafted,
            1 / 3,
            where(_is_bidirectional, maximum(pipeline - 2, 0) / (3 * maximum(pipeline - 1, 1)), 0),
        ),
    ),
    reference=_ZERO_BUBBLE,
)
bubble_overhead = scope.declare(
    "bubble_overhead, o_b: pipeline bubble: idle time of a stage over its busy time",
    equals=idle_share * (pipeline - 1) / (interleave * micro_batches),
    reference=_BUBBLE,
)
shards = scope.declare(
    "shards, n_z: ranks with the same weights, over which ZeRO shards states", equals=data * context, reference=_ZERO
)
expert_weights = scope.declare(
    "expert_weights, N_X: weights of all routed experts",
    equals=parameters.expert_layers * shapes.experts * parameters.expert_parameters,
    reference=_EXPERTS,
)
shard_parameters = scope.declare(
    "shard_parameters, N_s: weights per GPU after tensor, pipeline and expert parallelism",
    equals=((parameters.parameters - expert_weights) / tensor + expert_weights / (expert * expert_tensor)) / pipeline,
    reference=_SPLIT,
)
gathered_parameters = scope.declare(
    "gathered_parameters, N_g: weights of a layer gathered whole on one GPU, mean over layers: all experts of its "
    "expert-parallel rank, whichever of them tokens choose",
    equals=(parameters.layer_parameters - expert_weights / shapes.layers) / tensor
    + expert_weights / (shapes.layers * expert * expert_tensor),
    reference=_ZERO,
)
adapter_rank = scope.declare(
    "adapter_rank, r_a: rank of the adapters that are trained while the weights are frozen (LoRA); 0: all weights "
    "are trained. Unless given, 0",
    bounds=(0, None),
    equals=number("0"),
    reference=_LORA,
)
is_frozen: Expression = adapter_rank > 0
adapter_width = scope.declare(
    "adapter_width, w_l: elements into and out of the matrices of a layer that have adapters, the mean over layers: "
    "attention and dense feed-forward; routed experts have none",
    equals=where(
        shapes.latent_width > 0,
        3 * shapes.hidden
        + 2 * shapes.query_width
        + 2 * shapes.latent_width
        + shapes.rotary_width
        + shapes.heads * (shapes.head_size - shapes.rotary_width + shapes.value_size),
        4 * shapes.hidden + parameters.kv_size,
    )
    + parameters.query_size
    + parameters.output_size
    + parameters.plain_layers / shapes.layers * shapes.ffn_matrices * (shapes.hidden + shapes.ffn),
    reference=_LORA,
)
adapter_parameters = scope.declare(
    "adapter_parameters, N_r: weights of the adapters, on all linear layers but those of routed experts",
    equals=shapes.layers * adapter_rank * adapter_width,
    reference=_LORA,
)
trained_share = scope.declare(
    "trained_share, s_t: weights that are trained, over those of the model",
    bounds=("positive", None),
    equals=where(is_frozen, adapter_parameters / parameters.parameters, 1),
    reference=_LORA,
)
owned_parameters = scope.declare(
    "owned_parameters, N_o: weights per GPU with fully sharded states",
    equals=parameters.parameters / (tensor * pipeline * shards),
    reference=_ZERO,
)


def is_whole(value: Expression) -> Expression:
    """Whether a quotient is an integer."""
    return equal(value, floor(value))


_slots = pipeline * interleave
fullest_stage = scope.declare(
    "fullest_stage, L_p: layers of the fullest stage: all of them without a pipeline",
    equals=where(pipeline > 1, ceil(shapes.layers / _slots) * interleave, shapes.layers),
    reference=_SPLIT,
)


def _memory(heading: str, equals: Operand, reference: Reference) -> Variable:
    return scope.declare(f"memory.{heading}", equals=equals, reference=reference)


def _kept_from(stage: int) -> Expression:
    """Weights per GPU of the fullest stage, sharded from the given ZeRO stage on."""
    mean = where(zero_stage >= stage, owned_parameters, shard_parameters)
    share = where(pipeline > 1, fullest_stage * pipeline / shapes.layers, 1)
    return _PER_GPU * mean * share


# Under DualPipe a rank has a stage of each direction.
weight_memory = _memory(
    "weights, M_w [byte/GPU as GiB/GPU]: weights in use",
    optimizer.weight_bytes * _kept_from(3) * where(_is_bidirectional, 2, 1),
    _ZERO,
)
gradient_memory = _memory(
    "gradients, M_g [byte/GPU as GiB/GPU]: gradients", optimizer.gradient_bytes * trained_share * _kept_from(2), _ZERO
)
optimizer_memory = _memory(
    "optimizer, M_o [byte/GPU as GiB/GPU]: optimizer states",
    optimizer.state_bytes * trained_share * _kept_from(1),
    _ZERO,
)
state_memory = _memory(
    "states, M_s [byte/GPU as GiB/GPU]: weights, gradients and optimizer states",
    weight_memory + gradient_memory + optimizer_memory,
    _ZERO,
)

tokens = scope.declare(
    "tokens, T: tokens of one micro-batch on one rank",
    equals=number("1 1/token") * micro_batch * shapes.sequence / context,
    reference=_CONTEXT,
)
ffn_width = scope.declare(
    "ffn_width, f_m: feed-forward elements of a token in a layer, the mean over layers",
    equals=(
        parameters.plain_layers * shapes.ffn
        + parameters.expert_layers * (shapes.experts_per_token + shapes.shared_experts) * shapes.expert_ffn
    )
    / shapes.layers,
    reference=_EXPERTS,
)
expert_input_width = scope.declare(
    "expert_input_width, h_x: elements of a token's copies for its experts in a layer, the mean over layers",
    equals=where(shapes.experts > 0, parameters.expert_layers / shapes.layers * shapes.experts_per_token, 0)
    * shapes.hidden,
    reference=_EXPERTS,
)
shared_width = scope.declare(
    "activation.whole, w_0 [byte]: activation bytes per token and layer replicated on tensor ranks: inputs of "
    "GEMMs and norms, masks of dropout where it is applied",
    equals=number("8 byte") * shapes.hidden + software.dropout * number("2 byte") * shapes.hidden,
    reference=_ACTIVATIONS,
)
split_width = scope.declare(
    "activation.split, w_1 [byte]: activation bytes per token and layer sharded over tensor ranks: queries, "
    "keys, values, attention outputs, feed-forward, inputs of experts",
    equals=number("2 byte")
    * (
        parameters.query_size
        + parameters.kv_size
        + parameters.output_size
        + shapes.ffn_matrices * ffn_width
        + expert_input_width
    ),
    reference=_ACTIVATIONS,
)
# Inputs of the norms, latents or else queries, keys and values, and outputs of attention stay in 16 bits; inputs
# of experts and of activation functions have 8.
compact_width = scope.declare(
    "activation.compact, w_c [byte]: activation bytes of a token in a layer on one rank, kept in 8 bits",
    equals=number("4 byte") * shapes.hidden / where(sequence_parallel, tensor, 1)
    + number("2 byte")
    * where(
        shapes.latent_width > 0,
        shapes.query_width + shapes.latent_width + shapes.rotary_width,
        (parameters.query_size + parameters.kv_size) / tensor,
    )
    + (
        number("2 byte") * parameters.output_size
        + number("1 byte") * ((shapes.ffn_matrices - 1) * ffn_width + expert_input_width)
    )
    / tensor,
    reference=_COMPACT,
)
score_width = scope.declare(
    "activation.scores, w_2 [byte]: activation bytes of attention logits per token and layer",
    equals=where(
        software.attention.is_("unfused") & recompute.is_("none"),
        # The softmax's output; with dropout also its mask and the output after it.
        (number("2 byte/token") + software.dropout * number("3 byte/token")) * shapes.heads * shapes.sequence,
        number("0 byte"),
    ),
    reference=_ACTIVATIONS,
)
activation_width = scope.declare(
    "activation.width, w_a [byte]: activation bytes of a token in a layer on one rank",
    equals=where(
        recompute.is_("full"),
        number("2 byte") * shapes.hidden,
        where(
            compact,
            compact_width,
            where(sequence_parallel, shared_width / tensor, shared_width) + (split_width + score_width) / tensor,
        ),
    ),
    reference=_ACTIVATIONS,
)
in_flight = scope.declare(
    "in_flight, n_f: micro-batches in flight on the first stage",
    equals=minimum(
        where(
            schedule.is_at_least("zb_h2") & (interleave <= 1),
            where(_is_bidirectional, pipeline + 1, 2 * pipeline - 1),
            pipeline + where(interleave > 1, (pipeline - 1) / interleave, 0),
        ),
        maximum(micro_batches, 1),
    ),
    reference=_ACTIVATIONS,
)
activation_memory = _memory(
    "activations, M_a [byte/GPU as GiB/GPU]: activations on the first stage",
    _PER_GPU * tokens * fullest_stage * in_flight * activation_width,
    _ACTIVATIONS,
)
logit_memory = _memory(
    "logits, M_l [byte/GPU as GiB/GPU]: logits on the last stage, in 16 and 32 bits, with gradient",
    _PER_GPU * number("10 byte") * tokens * shapes.vocabulary / tensor,
    by_definition("counted: 2 byte, 4 byte, and 4 byte of gradient"),
)
reserve = scope.declare(
    "reserve, M_r [byte/GPU as GiB/GPU]: memory reserved by driver, libraries and allocator",
    reference=by_definition("capacity less memory available to a job"),
    boundary="needs-source",
    family="parallelism",
)
workspace_memory = _memory(
    "workspace, M_x [byte/GPU as GiB/GPU]: the reserve, two layers gathered whole where weights are split, and "
    "one layer computed again",
    reserve
    + _PER_GPU
    * (
        where(
            zero_stage.is_("weights"),
            2 * (optimizer.weight_bytes + trained_share * optimizer.gradient_bytes) * gathered_parameters,
            number("0 byte"),
        )
        + where(recompute.is_("full"), tokens * (shared_width + split_width) / tensor, number("0 byte"))
    ),
    _BUFFERS,
)
memory = _memory(
    "total, M [byte/GPU as GiB/GPU]: memory needed per GPU: maximum of first and last stage",
    state_memory + workspace_memory + maximum(activation_memory, activation_memory / in_flight + logit_memory),
    _ACTIVATIONS,
)


scope.inequality(
    "fits_memory", memory <= gpu_rates.memory_capacity, "the memory needed per GPU fits its capacity", reference=_ZERO
)
scope.inequality(
    "heads_divide", is_whole(shapes.heads / tensor), "heads divide evenly over tensor ranks", reference=_TENSOR
)
scope.inequality(
    "layers_divide",
    is_whole(shapes.layers / _slots)
    | is_whole((shapes.layers + 2) / _slots)
    | ((interleave <= 1) & (pipeline <= shapes.layers)),
    "interleaved stages have the same number of layers, or the first and last one less each; others "
    "have one at least, and wait for the longest",
    reference=_SPLIT,
)
scope.inequality(
    "interleave_needs_stages",
    (interleave <= 1) | (pipeline > 1),
    "interleaving needs more than one pipeline stage",
    reference=_BUBBLE,
)
scope.inequality(
    "interleave_needs_passes",
    (interleave <= 1) | is_whole(micro_batches / pipeline),
    "interleaved 1F1B: micro-batches are a multiple of the pipeline stages",
    reference=_BUBBLE,
)
scope.inequality(
    "schedule_whole",
    schedule.is_("1f1b") | (interleave <= 1),
    "only 1F1B interleaves virtual stages",
    reference=_ZERO_BUBBLE,
)
scope.inequality(
    "dualpipe_even",
    ~_is_bidirectional | (is_whole(pipeline / 2) & is_whole(micro_batches / 2)),
    "DualPipe has an even number of stages and of micro-batches",
    reference=_ZERO_BUBBLE,
)
scope.inequality("replicas_divide", is_whole(data), "GPUs divide evenly over replicas", reference=_SPLIT)
scope.inequality(
    "batch_divides", is_whole(micro_batches), "micro-batches per replica are a whole number", reference=_SPLIT
)
scope.inequality(
    "experts_divide",
    below(shapes.experts, 1)
    | (is_whole(shapes.experts / expert) & is_whole(shards * tensor / (expert * expert_tensor))),
    "experts divide evenly over expert-parallel ranks",
    reference=_EXPERTS,
)
