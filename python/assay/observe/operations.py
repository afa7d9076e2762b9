"""Names of the operations of a model's graph, as traces, planner and reports use them.

A kernel that fuses several carries them joined by `+`, in the order of the graph:
`input_norm+qkv_proj`.
"""

from __future__ import annotations

from typing import Final

LAYER_OPERATIONS: Final = {
    "input_norm": "norm before attention, with the residual add before it",
    "qkv_proj": "projection to queries, keys and values",
    "qk_norm": "norm of queries and keys",
    "q_a_proj": "MLA: down projection of queries",
    "q_a_norm": "MLA: norm of the query latent",
    "q_b_proj": "MLA: up projection of queries",
    "kv_a_proj": "MLA: down projection to the KV latent",
    "kv_a_norm": "MLA: norm of the KV latent",
    "kv_b_proj": "MLA: up projection of keys and values, or its absorbed halves",
    "rope": "rotary position embedding",
    "kv_cache_write": "write of keys and values to the paged KV cache",
    "attention": "attention over the KV cache, with split scheduling and combine",
    "o_proj": "output projection of attention",
    "post_attention_norm": "norm before the MLP, with the residual add before it",
    "gate_up_proj": "gate and up projection of the MLP",
    "activation": "activation of the MLP, with the product of gate and up",
    "down_proj": "down projection of the MLP",
    "router": "MoE: router logits",
    "router_topk": "MoE: choice of experts and their weights",
    "expert_dispatch": "MoE: sorting, alignment and permutation of tokens by expert",
    "experts_gate_up": "MoE: grouped GEMM of gate and up projections",
    "experts_activation": "MoE: activation of the experts",
    "experts_down": "MoE: grouped GEMM of down projections",
    "expert_combine": "MoE: weighted sum over the chosen experts",
    "shared_gate_up": "MoE: gate and up projection of shared experts",
    "shared_activation": "MoE: activation of shared experts",
    "shared_down": "MoE: down projection of shared experts",
    "ssm_in_proj": "state-space layer: input projection",
    "ssm_conv": "state-space layer: causal convolution",
    "ssm_scan": "state-space layer: selective scan or state update",
    "ssm_norm": "state-space layer: gated norm",
    "ssm_out_proj": "state-space layer: output projection",
    "quantize": "quantization of activations",
    "all_reduce": "sum over tensor-parallel ranks",
    "all_gather": "gather over ranks",
    "reduce_scatter": "reduction scattered over ranks",
    "all_to_all": "exchange over expert-parallel ranks",
    "send_recv": "hop between pipeline stages",
}
"""Operations that each layer has, and what they do."""

STEP_OPERATIONS: Final = {
    "prepare_inputs": "positions, slot mapping, block tables and other inputs of the step",
    "embedding": "gather of embedding rows",
    "final_norm": "norm after the last layer",
    "select_logits": "gather of the rows that are sampled",
    "lm_head": "projection to the vocabulary",
    "sampling": "penalties, temperature, top-k/top-p, choice of tokens",
    "collect_outputs": "sampled tokens to the host and into the state of the sequences",
}
"""Operations that a step has once."""


def parts(operation: str) -> list[str]:
    """The operations that a kernel's operation is made of."""
    return operation.split("+")


def is_operation(operation: str) -> bool:
    """Whether every part is an operation of this table."""
    return all(part in LAYER_OPERATIONS or part in STEP_OPERATIONS for part in parts(operation))
