"""Kineto traces of a small Llama that decodes, written by hand: eager or as CUDA graphs.

Times are exact and known: each kernel's duration, each gap, each call. Nothing here comes from the
code under test.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 8192,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

NORM = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)"
FLASH = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "cutlass::bfloat16_t> > >(flash::Params)"
)
LAYER = (
    (NORM, 2_200, True),
    ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 5_000, False),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, int)", 2_000, True),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(long const*, int)", 2_100, True),
    (FLASH, 6_000, False),
    ("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", 4_000, False),
    (NORM, 2_200, True),
    ("nvjet_sm90_tst_128x8_64x8_2x1_v_bz_TNT", 20_000, False),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, true>(c10::BFloat16*, int)", 2_300, True),
    ("nvjet_sm90_tst_64x8_64x12_4x1_v_bz_splitK_TNT", 11_000, False),
)
"""Kernel, nanoseconds, whether it has a block for each row."""
BEFORE = (
    ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", 2_500, True),
)
AFTER = (
    (NORM, 2_200, True),
    ("nvjet_sm90_tst_192x8_64x4_2x1_v_bz_TNT", 36_000, False),
    ("void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps<float> >(int)", 9_000, False),
)
START_NS = 1_700_000_000_000_000_000
KERNELS = (*BEFORE, *LAYER * int(str(CONFIG["num_hidden_layers"])), *AFTER)


@dataclass
class Written:
    """What a trace holds, by the writer's own count."""

    events: list[dict[str, Any]] = field(default_factory=list)
    busy: list[list[tuple[int, int]]] = field(default_factory=list)
    """Device intervals of each step."""
    begins: list[int] = field(default_factory=list)
    """When the device begins with each step."""
    correlation: int = 0

    def add(self, category: str, name: str, start: int, took: int, **args: Any) -> None:
        on_device = category in ("kernel", "gpu_memcpy")
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": 0 if on_device else 70,
                "tid": args.get("stream", 70) if on_device else 70,
                "ts": start / 1000,
                "dur": took / 1000,
                "args": args,
            }
        )

    def device(self, name: str, start: int, took: int, rows: int, correlation: int) -> None:
        if name.startswith("Memcpy"):
            more = {"bytes": 4 * rows}
            category = "gpu_memcpy"
        else:
            more = {"grid": [rows, 1, 1], "block": [128, 1, 1]}
            category = "kernel"
        args = {"device": 0, "context": 1, "stream": 7, "correlation": correlation, **more}
        self.add(category, name, start, took, **args)
        self.busy[-1].append((start, start + took))

    def save(self, path: Path, device: str = "NVIDIA H200") -> Path:
        data = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": device, "numSms": 132}],
            "baseTimeNanoseconds": START_NS,
            "traceEvents": self.events,
        }
        path.write_text(json.dumps(data), encoding="ascii")
        return path

    def step_ns(self) -> list[int]:
        """From the start of each step to that of the next."""
        return [after - before for before, after in zip(self.begins, self.begins[1:], strict=False)]

    def busy_ns(self, step: int) -> int:
        """The union of a step's device intervals."""
        total, reached = 0, 0
        for start, end in sorted(self.busy[step]):
            total += max(end - max(start, reached), 0)
            reached = max(reached, end)
        return total


COPY = "Memcpy DtoH (Device -> Pinned)"


def eager(
    steps: int = 12, batch: int = 1, *, interval: int = 30_000, mark: str = "vllm"
) -> Written:
    """A launch each `interval`, later than the device needs it; kernels start 4 us after it."""
    made = Written()
    host = 1_000_000
    for _ in range(steps):
        made.busy.append([])
        for number, (name, took, by_row) in enumerate((*KERNELS, (COPY, 1_200, True))):
            made.correlation += 1
            call = "cudaMemcpyAsync" if name == COPY else "cudaLaunchKernel"
            made.add("cpu_op", f"aten::op{number % 7}", host, 12_000)
            made.add("cuda_runtime", call, host + 5_000, 5_000, correlation=made.correlation)
            start = host + 9_000
            if number == 0:
                made.begins.append(start)
            kernel = name.replace("vllm", mark)
            rows = batch if by_row else 32
            made.device(kernel, start, min(took, interval - 1_000), rows, made.correlation)
            host += interval
        made.add("cuda_runtime", "cudaStreamSynchronize", host - 15_000, 4_000, correlation=0)
        host += 40_000
    return made


def replayed(
    steps: int = 12,
    batch: int = 8,
    *,
    gap: int = 600,
    between: int = 20_000,
    later: int | None = None,
) -> Written:
    """One graph launch a step; kernels follow each other with `gap`, steps with `between`.

    The last third of the steps has a batch of `later`, where given.
    """
    made = Written()
    device = 1_000_000
    first = batch
    for step in range(steps):
        batch = first if later is None or step < 2 * steps // 3 else later
        made.busy.append([])
        made.correlation += 1
        made.begins.append(device)
        made.add(
            "cuda_runtime", "cudaGraphLaunch", device - 12_000, 10_000, correlation=made.correlation
        )
        for name, took, by_row in KERNELS:
            made.device(name, device, took, batch if by_row else 32, made.correlation)
            device += took + gap
        made.correlation += 1
        made.add(
            "cuda_runtime", "cudaMemcpyAsync", device - 300_000, 5_000, correlation=made.correlation
        )
        made.device(COPY, device, 1_200, batch, made.correlation)
        device += 1_200
        made.add("cuda_runtime", "cudaStreamSynchronize", device - 290_000, 292_000, correlation=0)
        device += between
    return made


def config(folder: Path, **changes: Any) -> Path:
    """The configuration of the model, with changes."""
    path = folder / "config.json"
    path.write_text(json.dumps({**CONFIG, **changes}), encoding="ascii")
    return path
