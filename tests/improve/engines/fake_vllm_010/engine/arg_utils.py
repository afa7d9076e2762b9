from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Literal, Optional, Union  # noqa: UP035

if TYPE_CHECKING:
    import torch

BlockSize = Literal[1, 8, 16, 32, 64, 128]
CacheDType = Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]


@dataclass
class EngineArgs:
    model: str = "facebook/opt-125m"
    kv_cache_dtype: CacheDType = "auto"
    block_size: Optional[BlockSize] = None  # noqa: UP045
    enable_prefix_caching: Optional[bool] = None  # noqa: UP045
    swap_space: float = 4
    gpu_memory_utilization: float = 0.9
    max_num_seqs: Optional[int] = None  # noqa: UP045
    enforce_eager: bool = False
    max_seq_len_to_capture: int = 8192
    lora_dtype: Optional[Union[str, "torch.dtype"]] = "auto"  # noqa: UP045
    preemption_mode: Optional[str] = None  # noqa: UP045
    speculative_config: Optional[Dict[str, Any]] = None  # noqa: UP006, UP045
    cuda_graph_sizes: list[int] = field(default_factory=list)
