"""A decoder's shapes: parameters, operations a token, and the keys and values it leaves."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number

scope = Scope("architecture", "Shapes of a transformer decoder")

_ATTENTION = cited("Vaswani et al. 2017, Attention Is All You Need", "sec. 3.2")
_GROUPED = cited("Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models")
_LATENT = cited("DeepSeek-AI 2024, DeepSeek-V2", "sec. 2.1")
_GATED = cited("Shazeer 2020, GLU Variants Improve Transformer", "sec. 2")
_SCALING = cited("Kaplan et al. 2020, Scaling Laws for Neural Language Models", "sec. 2.1")
_MEGATRON = cited(
    "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters",
    "appendix, floating-point operations",
)
_SHAPE = by_definition("the model's configuration file")

layers = scope.variable(
    "layers",
    "L",
    "1",
    "transformer layers",
    bounds=POSITIVE,
    reference=_SHAPE,
    boundary="primitive",
)
hidden = scope.variable(
    "hidden", "h", "1", "width of the residual stream", bounds=POSITIVE, reference=_SHAPE,
    boundary="primitive",
)  # fmt: skip
heads = scope.variable(
    "heads", "a", "1", "query heads", bounds=POSITIVE, reference=_ATTENTION, boundary="primitive"
)
kv_heads = scope.variable(
    "kv_heads", "g", "1", "key and value heads", bounds=POSITIVE, reference=_GROUPED,
    boundary="primitive",
)  # fmt: skip
ffn = scope.variable(
    "ffn", "f", "1", "width of the feed-forward layer", bounds=POSITIVE, reference=_ATTENTION,
    boundary="primitive",
)  # fmt: skip
ffn_matrices = scope.variable(
    "ffn_matrices", "n_f", "1", "weight matrices of the feed-forward: 2 plain, 3 gated",
    bounds=(2, 3), reference=_GATED, boundary="primitive",
)  # fmt: skip
vocabulary = scope.variable(
    "vocabulary", "V", "1", "tokens that the model knows", bounds=POSITIVE, reference=_SHAPE,
    boundary="primitive",
)  # fmt: skip
embedding_tables = scope.variable(
    "embedding_tables", "n_e", "1", "tables of vocabulary by width: 1 tied, 2 untied",
    bounds=(1, 2), reference=_SHAPE, boundary="primitive",
)  # fmt: skip
sequence = scope.variable(
    "sequence", "s", "token", "tokens of a sequence", bounds=POSITIVE, reference=_SHAPE,
    boundary="scenario",
)  # fmt: skip
head_size = scope.variable(
    "head_size", "d", "1", "elements of one head", equals=hidden / heads, reference=_ATTENTION
)
query_group = scope.variable(
    "query_group", "a/g", "1", "query heads that share keys and values", equals=heads / kv_heads,
    bounds=(1, None), reference=_GROUPED, library=True,
)  # fmt: skip
attention_parameters = scope.variable(
    "attention.parameters", "N_a", "1", "weights of the four projections of a layer",
    equals=2 * hidden * head_size * (heads + kv_heads), reference=_GROUPED,
)  # fmt: skip
ffn_parameters = scope.variable(
    "ffn.parameters", "N_f", "1", "weights of the feed-forward of a layer",
    equals=ffn_matrices * hidden * ffn, reference=_GATED,
)  # fmt: skip
norm_parameters = scope.variable(
    "norm.parameters", "N_n", "1", "gains of the two norms of a layer", equals=2 * hidden,
    reference=cited("Zhang and Sennrich 2019, Root Mean Square Layer Normalization"),
)  # fmt: skip
layer_parameters = scope.variable(
    "layer.parameters", "N_l", "1", "weights of a layer",
    equals=attention_parameters + ffn_parameters + norm_parameters, reference=_SCALING,
)  # fmt: skip
embedding_parameters = scope.variable(
    "embedding.parameters", "N_e", "1", "weights of embedding and output tables",
    equals=embedding_tables * vocabulary * hidden, reference=_SCALING,
)  # fmt: skip
parameters = scope.variable(
    "parameters", "N", "1", "weights of the model, last norm included", bounds=POSITIVE,
    equals=layers * layer_parameters + embedding_parameters + hidden, reference=_SCALING,
)  # fmt: skip
projection_flops = scope.variable(
    "projection.flops_per_token", "c_p", "FLOP/token",
    "operations of all products with layer weights, forward",
    equals=number("2 FLOP/token") * layers * (attention_parameters + ffn_parameters),
    reference=_SCALING,
)  # fmt: skip
attention_flops = scope.variable(
    "attention.flops_per_token", "c_a", "FLOP/token",
    "operations of scores and weighted values, forward, every token seeing every other",
    equals=number("4 FLOP/token^2") * layers * hidden * sequence, reference=_MEGATRON,
)  # fmt: skip
logit_flops = scope.variable(
    "logit.flops_per_token", "c_v", "FLOP/token", "operations of the output table, forward",
    equals=number("2 FLOP/token") * vocabulary * hidden, reference=_MEGATRON,
)  # fmt: skip
forward_flops = scope.variable(
    "forward.flops_per_token", "c_f", "FLOP/token", "operations of one token, forward",
    equals=projection_flops + attention_flops + logit_flops, reference=_MEGATRON,
)  # fmt: skip
training_flops = scope.variable(
    "training.flops_per_token", "c_t", "FLOP/token",
    "operations of one token, forward and twice that backward",
    equals=3 * forward_flops, reference=_MEGATRON,
)  # fmt: skip
kv_element_bytes = scope.variable(
    "kv.element_bytes", "b_kv", "byte", "bytes of a stored key or value element", bounds=POSITIVE,
    reference=_SHAPE, boundary="scenario",
)  # fmt: skip
latent_width = scope.variable(
    "latent.width", "d_c", "1", "elements of the compressed keys and values", reference=_LATENT,
    boundary="primitive", library=True,
)  # fmt: skip
rotary_width = scope.variable(
    "latent.rotary_width", "d_r", "1", "elements of the shared rotary key", reference=_LATENT,
    boundary="primitive", library=True,
)  # fmt: skip
kv_layer_bytes = scope.variable(
    "kv.layer_bytes_per_token", "k_l", "byte/token", "keys and values of one token in one layer",
    reference=_GROUPED,
)  # fmt: skip
scope.equation(
    kv_layer_bytes, number("2 1/token") * kv_heads * head_size * kv_element_bytes,
    name="architecture.kv.grouped", reference=_GROUPED,
)  # fmt: skip
scope.equation(
    kv_layer_bytes, number("1 1/token") * (latent_width + rotary_width) * kv_element_bytes,
    name="architecture.kv.latent", reference=_LATENT,
)  # fmt: skip
kv_bytes = scope.variable(
    "kv.bytes_per_token", "k", "byte/token", "keys and values of one token in all layers",
    equals=layers * kv_layer_bytes, reference=_GROUPED,
)  # fmt: skip
scope.inequality(
    "architecture.grouped", kv_heads <= heads, "there are no more key heads than query heads",
    reference=_GROUPED,
)  # fmt: skip
