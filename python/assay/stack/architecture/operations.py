"""Operations of a model on one token, as published counts of model FLOPs take them."""

from __future__ import annotations

from assay.model import Reference, Variable, cited, minimum, number, where
from assay.model.language.expression import Operand
from assay.stack import works
from assay.stack.architecture import parameters as p, shapes as s

_SCALING = cited(works.SCALING_LAWS, "sec. 2.1")
_SOFTMAX = cited(
    "Shah et al. 2024, FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision",
    "sec. 3.1, exponentials beside products",
)
_MEGATRON = cited(works.MEGATRON_CLUSTERS, "appendix, floating-point operations")
_MULTIPLY_ADD = number("2 FLOP/token")


def _count(heading: str, equals: Operand, reference: Reference) -> Variable:
    return s.scope.declare(heading, equals=equals, reference=reference)


projection_parameters = s.scope.declare(
    "projection.parameters, M: active layer weights of a token in GEMMs",
    equals=p.attention_layers * p.attention_matrices
    + p.linear_layers * p.linear_matrices
    + p.plain_layers * p.ffn_matrix_parameters
    + p.expert_layers * ((s.experts_per_token + s.shared_experts) * p.expert_matrix_parameters + s.experts * s.hidden),
    reference=_SCALING,
)
projection_flops = _count(
    "projection.flops_per_token, c_p [FLOP/token]: GEMMs with layer weights, forward",
    _MULTIPLY_ADD * projection_parameters,
    _SCALING,
)
seen_tokens = s.scope.declare(
    "attention.seen_tokens, s_a [token]: attended tokens per token, mean over attention layers, without causal mask",
    equals=(p.full_layers * s.sequence + p.window_layers * minimum(s.sequence, number("1 token") * s.window))
    / where(p.attention_layers > 0, p.attention_layers, 1),
    reference=_MEGATRON,
)
attended_tokens = s.scope.declare(
    "attention.attended_tokens, s_i [token]: attended tokens per token under sparse attention",
    equals=where(s.index_tokens > 0, minimum(seen_tokens, number("1 token") * s.index_tokens), seen_tokens),
    reference=s.INDEX,
)
attention_flops = _count(
    "attention.flops_per_token, c_a [FLOP/token]: attention FLOPs per token, forward, without causal mask",
    number("2 FLOP/token^2")
    * p.attention_layers
    * (s.heads * (s.head_size + s.value_size) * attended_tokens + s.index_heads * s.index_size * seen_tokens),
    _MEGATRON,
)
exponentials = s.scope.declare(
    "attention.exponentials, n_x [1/token]: exponentials of a token's softmax, forward, without causal mask",
    equals=number("1 1/token^2") * p.attention_layers * s.heads * attended_tokens,
    reference=_SOFTMAX,
)
linear_flops = _count(
    "linear.flops_per_token, c_l [FLOP/token]: linear-attention state update FLOPs per token, forward",
    3 * _MULTIPLY_ADD * p.linear_layers * s.linear_value_heads * s.linear_key_size * s.linear_value_size,
    s.LINEAR,
)
logit_flops = _count(
    "logit.flops_per_token, c_v [FLOP/token]: FLOPs of the output projection per token, forward",
    _MULTIPLY_ADD * s.vocabulary * s.hidden,
    _MEGATRON,
)
forward_flops = _count(
    "forward.flops_per_token, c_f [FLOP/token]: model FLOPs per token, forward",
    projection_flops + attention_flops + linear_flops + logit_flops,
    _MEGATRON,
)
training_flops = _count(
    "training.flops_per_token, c_t [FLOP/token]: model FLOPs per token, forward and backward",
    3 * forward_flops,
    _MEGATRON,
)
