"""Communication of a training job: bytes, and time without overlap."""

from __future__ import annotations

from assay.model import cited, fitted, maximum, minimum, number, where
from assay.stack import alpha_beta, interconnect, optimizer, parallelism, software, works
from assay.stack.architecture import parameters, shapes
from assay.stack.collectives import node, spans
from assay.stack.training import attention, experts
from assay.stack.training.experts import expert_share
from assay.stack.training.job import gpus, operand_bytes, scope
from assay.stack.training.weights import tensor, tokens

_TENSOR = cited(works.MEGATRON, "sec. 3")
_PIPELINE = cited(works.MEGATRON_CLUSTERS, "sec. 3.2 and 4.1")
_ZERO = cited(works.ZERO, "sec. 7")
_CONTEXT = cited(works.RING_ATTENTION)
_EXPERTS = cited(works.GSHARD)
_NODE_LIMIT = cited(works.DEEPSEEK_V3, "sec. 3.2.2")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_HALF = number("2 byte")
_NONE = number("0 s")
_stream = tokens * shapes.hidden

model_ranks = scope.declare(
    "node.model_ranks, r_m: model-parallel ranks of a node",
    equals=minimum(tensor, interconnect.node_ranks),
    bounds=(1, None),
    reference=_TENSOR,
)
tensor_reduction = node.node_all_reduce(
    scope, "tensor.reduction.", size=_stream * _HALF, ranks=model_ranks, direct=number("0")
)
tensor_scatter = node.node_reduce_scatter(scope, "tensor.scatter.", size=_stream * _HALF, ranks=model_ranks)
# All-gathers move low-precision operands; reductions need 16 bits.
tensor_gather = node.node_all_gather(scope, "tensor.gather.", size=_stream * operand_bytes, ranks=model_ranks)
tensor_spanning = spans.spanning_all_reduce(
    scope, "tensor.spanning.", size=_stream * _HALF, span=spans.span_of(tensor, model_ranks)
)
tensor_time = scope.declare(
    "tensor.time, t_t [s as us]: sums between tensor ranks in a layer and direction: two, each scattered and "
    "gathered where tokens are split",
    equals=2
    * where(
        tensor > interconnect.node_ranks,
        tensor_spanning,
        where(parallelism.sequence_parallel, tensor_scatter + tensor_gather, tensor_reduction),
    ),
    reference=_TENSOR,
)

local_ranks = scope.declare(
    "node.replica_ranks, r_d: ranks of a node with the same weights (data parallel)",
    equals=maximum(1, minimum(interconnect.node_ranks / model_ranks, parallelism.shards)),
    bounds=(1, None),
    reference=_PIPELINE,
)
exchange_size = scope.declare(
    "context.size, S_c [byte as MB]: keys and values sent per rank and layer in ring attention",
    equals=(parallelism.context - 1)
    * tokens
    * maximum(parameters.kv_size / tensor, shapes.head_size + shapes.value_size)
    * _HALF,
    reference=_CONTEXT,
)
context_time = scope.declare(
    "context.time, t_c [s as us]: exposed ring exchange of keys and values between context ranks, per layer",
    equals=maximum(
        _NONE,
        exchange_size
        / where(tensor * parallelism.context <= interconnect.node_ranks, interconnect.link_rate, interconnect.nic_rate)
        - attention.forward_time,
    ),
    reference=_CONTEXT,
)
# Ranks of an expert are neighbors, then those of other experts: a group of expert ranks fills a node
# before it spans several.
_expert_ranks = parallelism.expert * parallelism.expert_tensor
_expert_nodes = maximum(1, _expert_ranks / interconnect.node_ranks)
expert_copies = scope.declare(
    "expert.copies, n_x: nodes with a token's experts: one copy is sent to each and forwarded inside",
    equals=_expert_nodes * (1 - (1 - 1 / _expert_nodes) ** shapes.experts_per_token),
    reference=_NODE_LIMIT,
)
# Tensor ranks hold a part of the tokens each.
expert_exchange = spans.spanning_all_to_all(
    scope,
    "expert.exchange.",
    size=_stream / tensor * expert_copies * (operand_bytes + _HALF) / 2,
    span=spans.span_of(
        parallelism.expert, minimum(parallelism.expert, maximum(1, interconnect.node_ranks / parallelism.expert_tensor))
    ),
)
_split_ranks = minimum(parallelism.expert_tensor, interconnect.node_ranks)
_split_rows = where(experts.is_mixture, experts.rows, tokens) * shapes.hidden
expert_gather = node.node_all_gather(scope, "expert.gather.", size=_split_rows * operand_bytes, ranks=_split_ranks)
expert_scatter = node.node_reduce_scatter(scope, "expert.scatter.", size=_split_rows * _HALF, ranks=_split_ranks)
expert_exchange_time = scope.declare(
    "expert.exchange_time, t_x [s as us]: expert dispatch and combine per layer and direction, mean over "
    "layers; with split experts the ranks of an expert gather its tokens and sum its outputs",
    equals=expert_share
    * (2 * expert_exchange + where(parallelism.expert_tensor > 1, expert_gather + expert_scatter, _NONE)),
    reference=_EXPERTS,
)
# Stages are the outermost ranks: those of a job of one node talk over links; in a larger job some
# pair of neighboring stages lies in two nodes, and the slowest hop sets the pace.
stage_rate = scope.declare(
    "pipeline.rate, B_p [byte/s as GB/s]: bandwidth between neighboring stages, the slowest pair",
    equals=where(gpus / number("1 GPU") <= interconnect.node_ranks, interconnect.link_rate, interconnect.nic_rate),
    reference=_PIPELINE,
)
hop_time = scope.declare(
    "pipeline.hop_time, t_hop [s as us]: pipeline send of activations and gradients for one pass",
    equals=where(parallelism.pipeline > 1, 2 * parallelism.interleave * _stream * _HALF / tensor / stage_rate, _NONE),
    reference=_PIPELINE,
)


replicas = spans.span_of(parallelism.shards, local_ranks)
gradient_scatter = spans.spanning_reduce_scatter(
    scope,
    "data.scatter.",
    size=parallelism.shard_parameters * parallelism.trained_share * optimizer.gradient_bytes,
    span=replicas,
)
weight_gather = spans.spanning_all_gather(
    scope, "data.gather.", size=parallelism.shard_parameters * optimizer.weight_bytes, span=replicas
)
ring_latency = scope.declare(
    "data.ring_latency, alpha_d [s as us]: latency of a collective over all replicas",
    equals=alpha_beta.spanning_ring_all_gather(number("0 byte"), replicas),
    reference=_ZERO,
)
once_time = scope.declare(
    "data.once_time, t_d1 [s as ms]: gradient reduction and, with sharded states, weight all-gather once a step",
    equals=where(
        parallelism.zero_stage.is_("none"),
        2 * gradient_scatter,
        gradient_scatter * where(software.gradient_all_reduce, 2, 1) + parallelism.trained_share * weight_gather,
    ),
    reference=_ZERO,
)
gathers = where(parallelism.zero_stage.is_("weights"), 2, 1)
each_time = scope.declare(
    "data.each_time, t_d2 [s as ms]: weight all-gathers and gradient reduce-scatters of every pass (ZeRO)",
    equals=gathers * weight_gather + gradient_scatter,
    reference=_ZERO,
)
each_latency = scope.declare(
    "data.each_latency, t_d0 [s as ms]: latency of data-parallel collectives of every layer in a pass",
    equals=(shapes.layers / parallelism.pipeline) * (gathers + 1) * ring_latency,
    reference=_ZERO,
)
broadcast_share = scope.declare(
    "broadcast_share, r_c: share of one adapter's line rate that a broadcast reaches",
    bounds=("positive", 1),
    reference=_FITTED,
    boundary="needs-source",
)
broadcast_time = scope.declare(
    "data.broadcast_time, t_d3 [s as ms]: weights, twice, and gradients of a pass through the adapter of one owner",
    equals=parallelism.shard_parameters
    * (2 * optimizer.weight_bytes + parallelism.trained_share * optimizer.gradient_bytes)
    / (broadcast_share * interconnect.nic_bandwidth * number("1 GPU")),
    reference=_ZERO,
)
tied_time = scope.declare(
    "pipeline.tied_time, t_v [s as ms]: gradients of tied embeddings on the first and last stage",
    equals=where(
        (parallelism.pipeline > 1) & shapes.embedding_tables.is_("tied") & ~parallelism.is_frozen,
        shapes.vocabulary * shapes.hidden / tensor * optimizer.gradient_bytes / stage_rate,
        _NONE,
    ),
    reference=_PIPELINE,
)
