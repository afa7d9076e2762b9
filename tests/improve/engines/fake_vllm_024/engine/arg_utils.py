import enum
from dataclasses import dataclass, field
from typing import Any, Literal

CacheDType = Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]
SchedulerPolicy = Literal["fcfs", "priority"]


class OptimizationLevel(enum.IntEnum):
    O0 = 0
    O1 = 1
    O2 = 2
    O3 = 3


class AttentionBackendEnum(enum.Enum):
    FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
    TRITON_ATTN = "vllm.v1.attention.backends.triton_attn.TritonAttentionBackend"


@dataclass
class ProfilerConfig:
    profiler: Literal["torch", "cuda"] | None = None


@dataclass(frozen=True)
class FieldInfo:
    """Stands for pydantic's, which some defaults are."""

    default: Any = None
    default_factory: Any = None


@dataclass
class EngineArgs:
    model: str = "Qwen/Qwen3-0.6B"
    load_format: str | Literal["auto", "dummy"] = "auto"
    kv_cache_dtype: CacheDType = "auto"
    max_cudagraph_capture_size: int | None = FieldInfo(None)
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    disable_cascade_attn: bool = False
    gpu_memory_utilization: float = 0.92
    kv_cache_memory_bytes: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    long_prefill_token_threshold: int = 0
    quantization: Literal["fp8", "awq"] | str | None = None
    enforce_eager: bool = False
    enable_chunked_prefill: bool | None = None
    cpu_offload_params: set[str] = field(default_factory=set)
    speculative_config: dict[str, Any] | None = None
    scheduling_policy: SchedulerPolicy = "fcfs"
    profiler_config: ProfilerConfig = field(default_factory=ProfilerConfig)
    attention_backend: AttentionBackendEnum | None = None
    async_scheduling: bool | None = None
    enable_sleep_mode: bool = False
    performance_mode: Literal["balanced", "interactivity", "throughput"] = "balanced"
    optimization_level: OptimizationLevel = OptimizationLevel.O2
    _api_process_count: int = 1
