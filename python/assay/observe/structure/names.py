"""Classes of kernel names: weak evidence of what a kernel does.

`nvjet_*`, `cutlass::*` or `triton_*` tell a GEMM from an elementwise kernel, not `o_proj` from
`down_proj`. A name that matches nothing is of class "unknown", which fits every operation alike.
"""

from __future__ import annotations

import re
from typing import Final

# Bounded repetitions: names are input, and an unbounded one takes quadratic time.
_PATTERNS: Final = (
    ("splitk", r"split_?k_?reduce|splitkreduce|reduce_?split_?k|split_?k.{0,300}reduce_kernel"),
    ("all_reduce", r"all_?reduce|cross_device_reduce|one_?shot|two_?shot|multimem_all_?red"),
    ("all_gather", r"all_?gather"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_to_all", r"all_?to_?all|a2a|deep_?ep|internode::|intranode::"),
    ("send_recv", r"send_?recv"),
    ("moe_sum", r"moe_?sum|finalize_?moe|moe_?finalize|unpermute|moe_?combine|moe_?reduce"
                r"|topk_?(sum|reduce)"),
    ("moe_sort", r"moe_?align|count_and_sort|align_block_size|permute|expert_?(map|offset|sort)"
                 r"|sort_?(by_)?expert|expand_?input|expert_?first|blocked_?expert|scatter_?expert"
                 r"|routing_?(indices|data)|bitmatrix"),
    ("route_topk", r"topk_?gating|grouped_?topk|topk_?softmax|softmax_?topk|moe_?(fused_?)?gate"
                   r"|moe.{0,300}topk|topk.{0,300}moe|routing|topk_sigmoid"),
    ("moe_gemm", r"fused_?moe|moe_?gemm|group(ed)?_?gemm|moe_?mm|moe.{0,300}(gemm|wna16|marlin)"
                 r"|marlin_?moe|m_?grouped|expert.{0,300}gemm|gemm.{0,300}expert|matmul_ogs"
                 r"|mul_mat_id"),
    ("attention_aux", r"fwdcombine|flash.{0,300}combine|merge_?(attn_)?states?"
                      r"|splitkv.{0,300}(combine|reduce)"
                      r"|prepare_varlen|mla_metadata|reduce_segments"
                      r"|attn.{0,300}(combine|reduce|merge)"
                      r"|fwd_kernel_stage2|stream_?k_fixup|flash_attn_(mask|combine)"),
    ("attention", r"batch_?(decode|prefill)|paged_?attention|unified_attention|flash_(attn_)?fwd"
                  r"|fmha|mha_fwd|flash_attn_ext"),
    ("kv_cache", r"reshape_and_cache|concat_and_cache|kv_?cache|cache_kernel|set_?kv|store_?kv"
                 r"|append_paged|append_?kv|write_?kv|kv_?buffer|update_?kv|cpy_kv|set_rows"),
    ("attention", r"flash|fmha|attention|attn|paged_?kv|batch(decode|prefill)with|mla|sdpa|xqa"
                  r"|mmha|masked_multihead|fwd_kernel_stage1|splitkv"),
    ("ssm_conv", r"causal_?conv|conv1d"),
    ("ssm_scan", r"selective_(scan|state)|chunk_(scan|state|gated|fwd|delta|local|cumsum|o_kernel)"
                 r"|state_passing|gated_?delta|recurrent|bmm_chunk|solve_tril|recompute_w_u|gdn"
                 r"|scaled_dot_kkt|ssd_|ssm_"),
    ("norm", r"norm"),
    ("rope", r"rope|rotary"),
    ("activation", r"silu|swiglu|geglu|gelu|act_and_mul|relu|glu_kernel|swish"),
    ("quantize", r"quant|cvt_fp16_to_fp4|to_fp8|fp8_cast|per_token_(group|cast)"),
    ("gemm", r"gemm|nvjet|gemv|wgmma|matmul|xmma|_mm_|mul_mat|hmma|imma|s?884|s?16816|cijk_"
             r"|machete|marlin|cublas|cutlass|cute_?dsl|deep_gemm|^ampere_|^sm\d+_|triton_tem"
             r"|dot_kernel|splitk|linear_kernel|bmm"),
    ("embedding", r"embedding|index_?select|vocab"),
    ("sampling", r"sampl|argmax|argmin|multinomial|gumbel|top_?[pk]|penalt|softmax|sort|cumsum"
                 r"|exponential|distribution|logits|bincount|rejection|temperature|philox"
                 r"|random|cumprod|masked_fill|scan_kernel|dev(ice)?scan|deviceradix|min_p"),
    ("collect", r"post_update|output_token|update_(states|requests)|copy_outputs|num_rejected"),
    ("prepare", r"prepare|slot_?mapping|block_?table|positions?_|pos_seq|seq_?lens|input_ids"
                r"|arange|apply_write|cu_seqlens|page_table|req_to_token|expand_kernel"
                r"|staged_write|draft_tokens|query_start"),
    ("gather", r"gather|index_elementwise|scatter|index_kernel|take|index_put|get_rows"),
    ("fill", r"fillfunctor|fill_kernel|memset|zero_kernel|\bfill"),
    ("reduce", r"reduce|triton_(red|per)_"),
    ("elementwise", r"elementwise|triton_poi|copy|cat(array|_)|cast|convert|add_kernel|mul_kernel"
                    r"|pointwise|unary|binary|transpose|where|concat|memcpy"),
)  # fmt: skip

CLASSES: Final = (
    *dict.fromkeys(name for name, _ in _PATTERNS),
    "memset",
    "copy_in",
    "copy_out",
    "copy_device",
    "unknown",
)
"""Every class; copies and memsets are told by the kind of their event."""

CLASS_CODES: Final = {name: code for code, name in enumerate(CLASSES)}

_COMPILED: Final = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _PATTERNS)
_INDUCTOR: Final = re.compile(r"^triton_(?:poi|red|per|tem|for)_fused_+(.*?)_?\d*$")

_LONGEST: Final = 4000
"""Characters of a name that are looked at: templates repeat themselves, hostile names never end."""


def classify(kind: str, name: str) -> str:
    """The class of an event of a device.

    >>> classify("kernel", "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT")
    'gemm'
    >>> classify("kernel", "triton_poi_fused_3"), classify("kernel", "k17")
    ('elementwise', 'unknown')
    """
    if kind == "memset":
        return "memset"
    if kind == "memcpy":
        return _copy(name)
    text = name[:_LONGEST]
    for class_name, pattern in _COMPILED:
        if pattern.search(text):
            return class_name
    return "unknown"


def _copy(name: str) -> str:
    """The direction of a copy, as Kineto, Nsight Systems and ROCm write it."""
    text = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    for mark, direction in (("htod", "copy_in"), ("hosttodevice", "copy_in"), ("h2d", "copy_in"),
                            ("dtoh", "copy_out"), ("devicetohost", "copy_out"), ("d2h", "copy_out"),
                            ("dtod", "copy_device"), ("devicetodevice", "copy_device")):  # fmt: skip
        if mark in text:
            return direction
    return "copy_device"


def also(name: str) -> tuple[str, ...]:
    """Further classes of a kernel that fuses several, where the compiler lists them in its name.

    >>> also("triton_red_fused__to_copy_embedding_rms_norm_0")
    ('norm', 'embedding')
    """
    if not (match := _INDUCTOR.match(name[:_LONGEST])):
        return ()
    listed = match.group(1)
    wanted = ("norm", "rope", "activation", "embedding", "quantize", "route_topk", "moe_sum")
    return tuple(name for name, pattern in _COMPILED if name in wanted and pattern.search(listed))
