"""What each backend can do, so that callers ask for a capability and not for a kind of device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from assay._native import cuda_attention_limits
from assay.runtime.dtypes import DType, bfloat16, float16, float32

DLPACK_CPU: Final = 1
DLPACK_CUDA: Final = 2
DLPACK_EXTENSION: Final = 12
"""DLPack's device types."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device's backend supports and how it prefers to be used."""

    is_gpu: bool
    """For benchmarks, which choose sizes and baselines by it; prefer a more exact question."""
    has_array_kernels: bool
    """Whether array operations are kernels of the device; elsewhere NumPy functions run."""
    executes_asynchronously: bool
    """Whether the host runs ahead of the default stream, so that overlapping steps pays."""
    has_cheap_timing: bool
    """Whether timing every record costs little; on a GPU it takes two driver events each."""
    supports_jit: bool
    """Whether kernels in CUDA C++ can be compiled for it."""
    uses_cublaslt: bool
    """Whether large GEMMs run in cuBLASLt where it is installed."""
    dlpack_device_type: int
    shares_memory_by_dlpack: bool
    """Whether consumers of DLPack can use its memory without a copy."""
    activation_dtypes: tuple[DType, ...]
    """The dtypes that neural operations take."""
    preferred_activation_dtype: DType
    gathers_stored_dtype: bool
    """Whether `embedding` returns rows in the dtype of the table; elsewhere they become float32."""
    kernels_check_overlap: bool
    """Whether kernels themselves refuse results that overlap operands."""
    weight_formats: tuple[str, ...]
    """The formats of packed weights that its GEMM kernels read."""
    packs_weights_on_device: bool
    """Whether kernels of the device quantize and pack weights; elsewhere the host does."""
    kv_formats: tuple[str, ...]
    """The formats of keys and values that its attention kernels read."""
    attention_head_dims: tuple[int, ...] | None
    """The head sizes that its attention kernels support; None means any."""
    attention_block_multiple: int
    """KV cache blocks hold a multiple of this many tokens."""
    fused_decode_attention_max_kv_heads: int
    """KV heads of all sequences together up to which `decode_attention` beats `rope_write` followed
    by `paged_attention`: beyond, its CTAs delay each other. 0 where the operation has no kernel."""
    fused_router_max_tokens: int
    """Tokens up to which the norm, logits and top-k of a mixture of experts are one kernel. 0 where
    `router` and `combine_linear` have no kernels."""
    grouped_gemv_max_assignments: int
    """Assignments of tokens to experts up to which each reads its expert's weights by itself."""
    grouped_small_m_max_rows: int
    """Assignments of an expert, on average, up to which a grouped GEMM of small tiles is faster."""
    grouped_large_tile_min_rows: int
    """Assignments of an expert, on average, from which a grouped GEMM takes large tiles by warpgroups, where the GPU
    has them; 0: never."""
    invariant_gemm_rows: int
    """Rows whose algorithm batch-invariant GEMMs of any number of rows take. 1: rows are padded to groups of
    one size instead."""
    fused_adapters_max_rows: int
    """Rows of a step up to which LoRA adapters are two kernels around a layer, which keeps its fused norm,
    and not grouped GEMMs. 0 where `lora_shrink` and `lora_expand` have no kernels."""
    least_delay_ns: int
    """The shortest delay that it keeps to a few percent."""


_GPU_HEAD_DIMS, _GPU_BLOCK_MULTIPLE = cuda_attention_limits()

_CPU: Final = Capabilities(
    is_gpu=False,
    has_array_kernels=False,
    executes_asynchronously=False,
    has_cheap_timing=True,
    supports_jit=False,
    uses_cublaslt=False,
    dlpack_device_type=DLPACK_CPU,
    shares_memory_by_dlpack=True,
    activation_dtypes=(float32,),
    preferred_activation_dtype=float32,
    gathers_stored_dtype=False,
    kernels_check_overlap=True,
    weight_formats=(
        *("f32", "f16", "bf16", "int8", "q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k", "mxfp4"),
    ),
    packs_weights_on_device=False,
    kv_formats=("f32", "f16", "bf16", "fp8", "int8"),
    attention_head_dims=None,
    attention_block_multiple=1,
    fused_decode_attention_max_kv_heads=0,
    fused_router_max_tokens=0,
    grouped_gemv_max_assignments=0,
    grouped_small_m_max_rows=0,
    grouped_large_tile_min_rows=0,
    invariant_gemm_rows=1,
    fused_adapters_max_rows=0,
    least_delay_ns=20_000,
)

BY_KIND: Final = {
    "cpu": _CPU,
    # A simulated device runs the CPU's kernels over copies of its memory.
    "sim": replace(
        _CPU, dlpack_device_type=DLPACK_EXTENSION, shares_memory_by_dlpack=False, least_delay_ns=1
    ),
    "cuda": Capabilities(
        is_gpu=True,
        has_array_kernels=True,
        executes_asynchronously=True,
        has_cheap_timing=False,
        supports_jit=True,
        uses_cublaslt=True,
        dlpack_device_type=DLPACK_CUDA,
        shares_memory_by_dlpack=True,
        activation_dtypes=(float32, bfloat16, float16),
        preferred_activation_dtype=bfloat16,
        gathers_stored_dtype=True,
        kernels_check_overlap=False,
        weight_formats=(
            *("f32", "f16", "bf16", "int8", "fp8", "int4", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"),
            *("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"),
        ),
        packs_weights_on_device=True,
        kv_formats=("bf16", "fp8", "int8"),
        attention_head_dims=tuple(_GPU_HEAD_DIMS),
        attention_block_multiple=_GPU_BLOCK_MULTIPLE,
        fused_decode_attention_max_kv_heads=64,
        fused_router_max_tokens=256,
        grouped_gemv_max_assignments=32,
        grouped_small_m_max_rows=4,
        # What the tiles hold; not measured on a GPU yet.
        grouped_large_tile_min_rows=48,
        # More are not measured on a GPU yet.
        invariant_gemm_rows=1,
        fused_adapters_max_rows=64,
        # The global timer may advance in steps of a microsecond.
        least_delay_ns=5_000,
    ),
}
"""The capabilities of every backend."""
