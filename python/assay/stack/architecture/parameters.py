"""Weights of a decoder, by part."""

from __future__ import annotations

from assay.model import POSITIVE, Expression, Reference, Variable, cited, where
from assay.model.language.expression import Operand
from assay.stack import works
from assay.stack.architecture import shapes as s

_SCALING = cited(works.SCALING_LAWS, "sec. 2.1")


def _part(heading: str, equals: Operand, reference: Reference, library: bool = False) -> Variable:
    return s.scope.declare(heading, equals=equals, reference=reference, library=library)


expert_layers = _part(
    "expert_layers, L_e: layers with experts", where(s.experts > 0, s.layers - s.dense_layers, 0), s.EXPERTS
)
plain_layers = _part("plain_layers, L_p: layers with a dense feed-forward", s.layers - expert_layers, s.EXPERTS)
linear_layers = _part("linear.layers, L_l: linear-attention layers", s.linear_share * s.layers, s.LINEAR)
window_layers = _part(
    "attention.window_layers, L_w: sliding-window layers", where(s.window > 0, s.window_share * s.layers, 0), s.WINDOW
)
full_layers = _part(
    "attention.full_layers, L_f: full-attention layers", s.layers - linear_layers - window_layers, s.ATTENTION
)
attention_layers = _part("attention.layers, L_a: layers with keys and values", full_layers + window_layers, s.ATTENTION)

query_size = _part("attention.query_size, n_q: elements of all query heads", s.heads * s.head_size, s.ATTENTION)
output_size = _part("attention.output_size, n_v: elements of all heads' outputs", s.heads * s.value_size, s.ATTENTION)
kv_size = _part(
    "attention.kv_size, n_kv: elements of all key and value heads", s.kv_heads * (s.head_size + s.value_size), s.GROUPED
)
grouped_matrices = _part(
    "attention.grouped_matrices, M_g: weights of queries, keys, values, gate and output",
    s.hidden * ((1 + s.attention_gate) * query_size + kv_size + output_size),
    s.GROUPED,
)
_latent_query: Expression = where(s.query_width > 0, s.query_width * (s.hidden + query_size), s.hidden * query_size)
index_matrices = _part(
    "index.matrices, M_i: weights of the sparse-attention indexer, per layer",
    s.index_heads * s.index_size * s.query_width + s.hidden * (s.index_size + s.index_heads),
    s.INDEX,
)
latent_matrices = _part(
    "attention.latent_matrices, M_c: weights of compression, expansion and output",
    _latent_query
    + s.hidden * (s.latent_width + s.rotary_width)
    + s.latent_width * s.heads * (s.head_size - s.rotary_width + s.value_size)
    + s.hidden * output_size,
    s.LATENT,
)
attention_matrices = _part(
    "attention.matrices, M_a: weights of attention matrices, per layer",
    where(s.latent_width > 0, latent_matrices + index_matrices, grouped_matrices),
    s.GROUPED,
)
attention_vectors = _part(
    "attention.vectors, m_a: biases, norms of heads and latents, and sinks of a layer",
    s.qkv_bias * (query_size + kv_size)
    + s.output_bias * s.hidden
    + s.sinks * s.heads
    + where(s.latent_width > 0, s.latent_width + s.query_width, 0)
    + 2 * s.index_size
    + where(s.head_norms > 1, (s.heads + s.kv_heads) * s.head_size, 2 * s.head_norms * s.head_size),
    s.HEAD_NORM,
)
attention_parameters = _part(
    "attention.parameters, N_a: weights of the attention of a layer", attention_matrices + attention_vectors, _SCALING
)

linear_channels = _part(
    "linear.channels, n_l: elements of queries, keys and values in linear attention",
    2 * s.linear_key_heads * s.linear_key_size + s.linear_value_heads * s.linear_value_size,
    s.LINEAR,
)
linear_matrices = _part(
    "linear.matrices, M_l: weights of inputs, output gate, rates and output",
    s.hidden * (linear_channels + 2 * s.linear_value_heads * s.linear_value_size + 2 * s.linear_value_heads),
    s.LINEAR,
)
linear_parameters = _part(
    "linear.parameters, N_s: weights of linear attention, per layer",
    linear_matrices + s.convolution * linear_channels + 2 * s.linear_value_heads + s.linear_value_size,
    s.LINEAR,
)

ffn_matrix_parameters = _part(
    "ffn.matrix_parameters, M_f: weights of dense feed-forward matrices", s.ffn_matrices * s.hidden * s.ffn, s.GATED
)
ffn_parameters = _part(
    "ffn.parameters, N_f: weights of a dense feed-forward",
    ffn_matrix_parameters + s.ffn_bias * ((s.ffn_matrices - 1) * s.ffn + s.hidden),
    s.GATED,
)
expert_matrix_parameters = _part(
    "expert.matrix_parameters, M_e: weights of one expert's matrices",
    s.ffn_matrices * s.hidden * s.expert_ffn,
    s.EXPERTS,
)
expert_parameters = _part(
    "expert.parameters, N_x: weights of one expert",
    expert_matrix_parameters + s.ffn_bias * ((s.ffn_matrices - 1) * s.expert_ffn + s.hidden),
    s.EXPERTS,
)
router_parameters = _part(
    "router.parameters, N_r: weights of the router and of the gate of shared experts",
    s.experts * (s.hidden + s.router_bias) + s.shared_gate * s.hidden,
    s.EXPERTS,
)
norm_parameters = _part(
    "norm.parameters, N_n: gains and biases of the norms of a layer", s.layer_norms * s.norm_vectors * s.hidden, s.NORM
)
mixture_parameters = _part(
    "mixture.parameters, N_m: weights of router and experts of a layer",
    (s.experts + s.shared_experts) * expert_parameters + router_parameters,
    s.SHARED,
)
active_mixture_parameters = _part(
    "mixture.active_parameters, N_m^*: active weights of router and experts",
    (s.experts_per_token + s.shared_experts) * expert_parameters + router_parameters,
    s.SHARED,
)

embedding_parameters = _part(
    "embedding.parameters, N_e: weights of embedding, positions and output projection",
    (s.embedding_tables * s.vocabulary + s.positions) * s.hidden + s.logit_bias * s.vocabulary,
    s.TIED,
)
token_mixing_parameters = _part(
    "mixing.parameters, N_t: weights of attention and norms of all layers",
    attention_layers * attention_parameters + linear_layers * linear_parameters + s.layers * norm_parameters,
    _SCALING,
)
layer_parameters = _part(
    "layer.parameters, N_l: weights of a layer, mean over layers",
    (token_mixing_parameters + plain_layers * ffn_parameters + expert_layers * mixture_parameters) / s.layers,
    _SCALING,
)
active_layer_parameters = _part(
    "layer.active_parameters, N_l^*: active weights of a layer, mean over layers",
    (token_mixing_parameters + plain_layers * ffn_parameters + expert_layers * active_mixture_parameters) / s.layers,
    s.SHARED,
)
outer_parameters = _part(
    "outer.parameters, N_o: weights of embeddings and norms outside layers",
    embedding_parameters + s.outer_norms * s.norm_vectors * s.hidden,
    _SCALING,
)
parameters = s.scope.declare(
    "parameters, N: weights of the model",
    bounds=POSITIVE,
    equals=s.layers * layer_parameters + outer_parameters,
    reference=_SCALING,
)
active_parameters = s.scope.declare(
    "active_parameters, N^*: active weights per token",
    bounds=POSITIVE,
    equals=s.layers * active_layer_parameters
    + outer_parameters
    - (1 - s.counts_lookup) * (s.embedding_tables - 1) * s.vocabulary * s.hidden,
    reference=s.SHARED,
    target=True,
)
s.scope.inequality(
    "grouped", s.kv_heads <= s.heads, "there are no more key heads than query heads", reference=s.GROUPED
)
s.scope.inequality(
    "routed", s.experts_per_token <= s.experts, "a token is routed to no more experts than exist", reference=s.EXPERTS
)
s.scope.inequality(
    "layers_split",
    s.linear_share + s.window_share <= 1,
    "a layer has a window or a fixed state, not both",
    reference=s.WINDOW,
)
