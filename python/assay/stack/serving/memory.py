"""Memory per GPU: weights, KV cache, and the batch size that fits."""

from __future__ import annotations

from assay.model import Expression, ceil, cited, equal, floor, maximum, minimum, number, where
from assay.stack import works
from assay.stack.architecture import cache, parameters, shapes
from assay.stack.gpu import rates as gpu_rates
from assay.stack.serving import deployment as d, engine
from assay.stack.serving.deployment import ONE_GPU, ONE_REQUEST, ONE_TOKEN, scope

_POPE = cited("Pope et al. 2022, Efficiently Scaling Transformer Inference", "partitioning")
_PAGED = cited(works.PAGED_ATTENTION, "sec. 3 and 4")
_LATENT = cited(works.DEEPSEEK_V2, "sec. 2.1")
_PROFILE = cited(
    "vLLM documentation, engine arguments, and source, gpu_worker.py",
    "determine_available_memory: KV cache in what a profiled step leaves",
)
# Activations are in 16 bits.
_WIDE = number("2 byte")

expert_parameters = scope.declare(
    "expert_parameters, N_x: weights of all routed experts",
    equals=parameters.expert_layers * shapes.experts * parameters.expert_parameters,
    reference=_POPE,
)
attention_parameters = scope.declare(
    "attention_parameters, N_a: weights of the attention of all layers",
    equals=parameters.attention_layers * parameters.attention_parameters
    + parameters.linear_layers * parameters.linear_parameters,
    reference=_POPE,
)
_shared = where(d.exchanges, parameters.expert_layers * shapes.shared_experts * parameters.expert_parameters, 0)
weight_memory = scope.declare(
    "weight_memory, M_w [byte/GPU as GB/GPU]: weights on one GPU",
    equals=engine.memory_error
    * (
        expert_parameters * d.expert_bytes
        + parameters.embedding_parameters * maximum(d.weight_bytes, d.embedding_bytes)
        + (parameters.parameters - expert_parameters - parameters.embedding_parameters) * d.weight_bytes
        + (d.attention_replicas - 1) * (attention_parameters + _shared) * d.weight_bytes
    )
    / d.instance_gpus,
    reference=_POPE,
)
_routed_width = where(shapes.experts > 0, shapes.experts_per_token, 0) * (
    (shapes.ffn_matrices * shapes.expert_ffn) / d.tensor + shapes.hidden
)
_dense_width = where(parameters.plain_layers > 0, shapes.ffn_matrices * shapes.ffn / d.tensor, 0)
layer_activations = scope.declare(
    "layer_activations, M_l [byte/GPU as GB/GPU]: activations of the widest feed-forward over the largest batch "
    "of tokens",
    equals=d.prompt_budget / ONE_TOKEN * (maximum(_routed_width, _dense_width) + 4 * shapes.hidden) * _WIDE / ONE_GPU,
    reference=_PROFILE,
)
logit_activations = scope.declare(
    "logit_activations, M_s [byte/GPU as GB/GPU]: logits of the most running requests while sampling",
    equals=d.batch_limit / ONE_REQUEST * shapes.vocabulary * engine.logit_bytes / ONE_GPU,
    reference=_PROFILE,
)
activation_memory = scope.declare(
    "activation_memory, M_a [byte/GPU as GB/GPU]: peak of the activations that the engine profiles",
    equals=engine.memory_error * maximum(layer_activations, logit_activations),
    reference=_PROFILE,
)
cache_memory = scope.declare(
    "cache_memory, M_c [byte/GPU as GB/GPU]: memory per GPU left for the KV cache",
    equals=maximum(
        (
            engine.memory_share * gpu_rates.memory_capacity
            - weight_memory
            - engine.counts_activations * (activation_memory + engine.reserved_memory / ONE_GPU)
        )
        * engine.free_share,
        number("1 byte/GPU"),
    ),
    reference=_PROFILE,
)
# KV heads are not split: more GPUs than KV heads replicate them, and all replicate the latent.
copies: Expression = where(shapes.latent_width > 0, d.attention_ranks, maximum(d.attention_ranks / shapes.kv_heads, 1))
cache_copies = scope.declare(
    "kv.copies, n_c: copies of the KV cache within a replica", equals=copies, reference=_LATENT
)


def sequence_memory(tokens: Expression) -> Expression:
    """Bytes of keys, values and states of one request of this many tokens, in one copy."""
    windowed = minimum(tokens, ONE_TOKEN * where(shapes.window > 0, shapes.window, tokens / ONE_TOKEN))
    elements = cache.full_elements * tokens + cache.window_elements * windowed + cache.state_elements
    return elements * d.kv_bytes


def _whole_blocks(tokens: Expression) -> Expression:
    """Tokens rounded up to blocks: a request's last block is not shared."""
    return engine.block_tokens * ceil(tokens / engine.block_tokens)


held_tokens = scope.declare(
    "kv.held_tokens, s_h [token]: average KV-cache tokens of a request",
    equals=d.prompt + engine.reserved_output * d.output,
    reference=_PAGED,
)
request_memory = scope.declare(
    "kv.request_memory, m_c [byte as MB]: KV cache of one request, all replicas",
    equals=cache_copies * sequence_memory(_whole_blocks(held_tokens)),
    reference=_PAGED,
)
token_memory = scope.declare(
    "kv.bytes_per_token, k [byte/token]: KV-cache bytes per token, one copy",
    equals=cache.elements_per_token * d.kv_bytes,
    reference=_LATENT,
)
blocks = scope.declare(
    "kv.blocks, n_b: blocks of the KV cache, all replicas, one copy",
    equals=floor(cache_memory * d.instance_gpus * _whole_blocks(held_tokens) / (request_memory * engine.block_tokens)),
    reference=_PAGED,
)
capacity = scope.declare(
    "kv.capacity, C [token]: KV-cache capacity in tokens, all replicas",
    equals=engine.block_tokens * blocks,
    reference=_PAGED,
    target=True,
)
longest_request = _whole_blocks(d.prompt + d.output)
max_concurrency = scope.declare(
    "kv.max_concurrency, c_max [request]: requests of the whole length, input and output, that the KV cache holds",
    equals=ONE_REQUEST * cache_memory * d.instance_gpus / (cache_copies * sequence_memory(longest_request)),
    reference=_PAGED,
    target=True,
)
requests_that_fit = scope.declare(
    "requests_that_fit, B_f [request]: KV-cache capacity in requests",
    equals=ONE_REQUEST * cache_memory * d.instance_gpus / request_memory,
    reference=_PAGED,
)
batch = scope.declare(
    "batch, B [request]: running requests (batch size)",
    equals=maximum(minimum(d.concurrency, d.batch_limit, requests_that_fit), ONE_REQUEST),
    reference=_PAGED,
)
one_request = scope.declare(
    "one_request_memory, m_1 [byte/GPU as GB/GPU]: KV cache of one request at its end, per GPU",
    equals=cache_copies * sequence_memory(d.prompt + d.output) / (d.attention_ranks * ONE_GPU * d.pipeline),
    reference=_PAGED,
)
scope.inequality(
    "fits_memory",
    one_request <= cache_memory,
    "weights and the KV cache of one request fit in GPU memory",
    reference=_PAGED,
)
scope.inequality(
    "fits_cache",
    minimum(d.concurrency, d.batch_limit) <= requests_that_fit,
    "the KV cache holds all requests that may run; others wait",
    reference=_PAGED,
)
shares = shapes.heads / d.attention_ranks
scope.inequality(
    "heads_divide", equal(shares, floor(shares)), "every GPU has the same number of query heads", reference=_POPE
)
scope.inequality(
    "layers_divide", d.pipeline <= shapes.layers, "every pipeline stage has a layer at least", reference=_POPE
)
scope.inequality(
    "experts_divide",
    d.expert <= maximum(shapes.experts, 1),
    "no more expert-parallel groups than experts",
    reference=_POPE,
)
