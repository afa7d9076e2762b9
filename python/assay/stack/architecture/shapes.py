"""Shape of a decoder as its configuration file states it: counts, widths and flags."""

from __future__ import annotations

from typing import Any

from assay.model import POSITIVE, Reference, Scope, Variable, by_definition, cited
from assay.stack import works

scope = Scope("architecture", "Shapes of a transformer decoder")

ATTENTION = cited("Vaswani et al. 2017, Attention Is All You Need", "sec. 3.2")
GROUPED = cited(works.GQA, "sec. 2.2")
LATENT = cited(works.DEEPSEEK_V2, "sec. 2.1")
GATED = cited("Shazeer 2020, GLU Variants Improve Transformer", "sec. 2")
EXPERTS = cited(
    "Shazeer et al. 2017, Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", "sec. 2"
)
SHARED = cited(
    "Dai et al. 2024, DeepSeekMoE: Toward Ultimate Expert Specialization in Mixture-of-Experts Language Models",
    "sec. 3.2",
)
WINDOW = cited("Beltagy et al. 2020, Longformer: The Long-Document Transformer", "sec. 3.1")
LINEAR = cited("Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks: Improving Mamba2 with Delta Rule", "sec. 3")
TIED = cited("Press and Wolf 2017, Using the Output Embedding to Improve Language Models", "weight tying")
POSITIONS = cited("Radford et al. 2019, Language Models are Unsupervised Multitask Learners", "model")
NORM = cited("Zhang and Sennrich 2019, Root Mean Square Layer Normalization", "RMSNorm")
HEAD_NORM = cited("Dehghani et al. 2023, Scaling Vision Transformers to 22 Billion Parameters")
INDEX = cited(
    "DeepSeek-AI 2025, DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models", "sec. 2.1, prototype of DSA"
)
_BIAS = by_definition("the model's configuration file: which GEMMs add a bias")
_FILE = by_definition("the model's configuration file")

_AT_LEAST_ONE = (1, None)
_MODEL: Any = {"boundary": "primitive", "family": "architecture"}


def _shape(
    heading: str,
    reference: Reference,
    bounds: tuple[float | str | None, float | str | None] = (0, None),
    nature: str = "measure",
) -> Variable:
    return scope.declare(heading, bounds=bounds, reference=reference, nature=nature, **_MODEL)


def _count(
    heading: str, reference: Reference, bounds: tuple[float | str | None, float | str | None] = (0, None)
) -> Variable:
    return _shape(heading, reference, bounds, "count")


def _flag(heading: str, reference: Reference) -> Variable:
    return scope.flag(heading, reference=reference, **_MODEL)


layers = _count("layers, L: transformer layers", _FILE, _AT_LEAST_ONE)
hidden = _count("hidden, h: width of the residual stream", ATTENTION, _AT_LEAST_ONE)
heads = _count("heads, a: query heads", ATTENTION, _AT_LEAST_ONE)
kv_heads = _count("kv_heads, g: key and value heads", GROUPED, _AT_LEAST_ONE)
head_size = _count("head_size, d_h: elements of a query or key head", ATTENTION, _AT_LEAST_ONE)
value_size = _count("value_size, d_v: elements of a value head", ATTENTION, _AT_LEAST_ONE)
ffn = _shape("ffn, f: width of the dense feed-forward", ATTENTION)
ffn_matrices = scope.choice(
    "ffn_matrices, n_f: matrices of a feed-forward layer",
    {"ungated": "without gate", "gated": "gated"},
    first=2,
    reference=GATED,
    **_MODEL,
)
vocabulary = _count("vocabulary, V: rows of the embedding table", _FILE, _AT_LEAST_ONE)
embedding_tables = scope.choice(
    "embedding_tables, n_e: embedding matrices", {"tied": "tied", "untied": "untied"}, first=1, reference=TIED, **_MODEL
)
counts_lookup = _flag(
    "counts_lookup, b_e: 1: active weights count the input embedding, which a token only looks up", _FILE
)
positions = _shape("positions, n_pos: rows of a learned position table; 0: none", POSITIONS)

experts = _count("experts, E: routed experts of a layer; 0: dense", EXPERTS)
experts_per_token = _count("experts_per_token, k: routed experts per token (top-k)", EXPERTS)
expert_ffn = _shape("expert_ffn, f_e: width of one expert", EXPERTS)
shared_experts = _shape("shared_experts, E_s: shared experts, in widths of a routed one", SHARED)
dense_layers = _count("dense_layers, L_d: dense layers of a mixture-of-experts model", SHARED)
router_bias = _flag("router_bias, b_r: 1: the router has a bias for each expert", _BIAS)
shared_gate = _flag("shared_gate, b_s: 1: a gate scales the shared experts", _FILE)

latent_width = _shape("latent.width, d_c: latent size of keys and values (MLA); 0: none", LATENT)
rotary_width = _shape("latent.rotary_width, d_r: elements of the shared rotary key", LATENT)
query_width = _shape("latent.query_width, d_q: latent size of queries (MLA); 0: none", LATENT)

window = _count("window, w: sliding-window size; 0: no window", WINDOW)
window_share = _shape("window_share, s_w: share of layers with a sliding window", WINDOW, (0, 1))
linear_share = _shape("linear_share, s_l: share of layers with linear attention (state of fixed size)", LINEAR, (0, 1))
linear_key_heads = _shape("linear.key_heads, a_k: key heads of a linear-attention layer", LINEAR)
linear_key_size = _shape("linear.key_size, d_k: key head size of linear attention", LINEAR)
linear_value_heads = _shape("linear.value_heads, a_v: value heads of a linear-attention layer", LINEAR)
linear_value_size = _shape("linear.value_size, d_u: value head size of linear attention", LINEAR)
convolution = _shape("linear.convolution, n_c: taps of its short convolution", LINEAR)

index_heads = _shape("index.heads, a_i: heads of the sparse-attention indexer", INDEX)
index_size = _shape("index.size, d_i: head size of the sparse-attention indexer", INDEX)
index_tokens = _shape("index.tokens, n_i: most tokens selected by sparse attention; 0: dense attention", INDEX)

attention_gate = _flag(
    "attention.gate, b_g: 1: a GEMM of the hidden state gates the attention's output",
    cited(
        "Qiu et al. 2025, Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free"
    ),
)
sinks = _flag(
    "attention.sinks, b_k: 1: every head has a learned attention sink",
    cited("OpenAI 2025, gpt-oss-120b and gpt-oss-20b Model Card"),
)
qkv_bias = _flag("bias.qkv, b_q: 1: queries, keys and values have biases", _BIAS)
output_bias = _flag("bias.output, b_o: 1: the attention's output has a bias", _BIAS)
ffn_bias = _flag("bias.ffn, b_f: 1: the matrices of feed-forwards have biases", _BIAS)
logit_bias = _flag("bias.logits, b_v: 1: the output projection has a bias", _BIAS)
layer_norms = _shape("norm.layer_count, n_n: norms of hidden size in a layer", NORM)
outer_norms = _shape("norm.outer_count, n_o: norms of hidden size outside layers", NORM)
norm_vectors = scope.choice(
    "norm.vectors, n_g: vectors of a norm",
    {"none": "none", "gain": "gain", "bias": "gain and bias"},
    reference=NORM,
    **_MODEL,
)
head_norms = scope.choice(
    "norm.heads, n_h: norms of queries and keys",
    {"none": "none", "shared": "shared by heads", "per_head": "per head"},
    reference=HEAD_NORM,
    **_MODEL,
)

sequence = scope.declare(
    "sequence, s [token]: tokens of a training sequence",
    bounds=POSITIVE,
    reference=_FILE,
    boundary="scenario",
    family="architecture",
)
context = scope.declare(
    "context, s_max [token]: longest sequence that the model's positions are made for",
    bounds=POSITIVE,
    reference=_FILE,
    boundary="scenario",
    family="architecture",
)
scope.inequality(
    "sequence_in_context", sequence <= context, "a training sequence is within the model's context", reference=_FILE
)
