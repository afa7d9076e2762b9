"""Measured serving figures: TensorRT-LLM tables, vLLM decode points, and a table of rows."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prediction.accelerators import ACCELERATORS, Accelerator, Constants, accelerator_named
from prediction.serving_model import (
    Architecture,
    Placement,
    iteration_time,
    kv_size,
    weight_size,
)

BATCH_LIMIT = 2048
TOKEN_BUDGET = 8192.0
STATIC_PROMPT_TOKENS = 16384
UNSTATED_WORKERS = 3
"""Decode workers of a separated deployment that does not state them: median of those that do."""

LLAMA_8B = Architecture(32, 4096, 32, 8, 128, 14336, 128256)
DEEPSEEK = Architecture(
    61, 7168, 128, 1, 576, 18432, 129280, experts=256, experts_per_token=8, expert_ffn=2048,
    shared_experts=1, dense_layers=3, latent=True,
)  # fmt: skip
# Shapes as public config.json files give them, recalled; GLM-5, Qwen3.5 and Kimi-K2.5 are the
# least sure, and their sparse or linear attention is only outlined.
ARCHITECTURES = {
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA_8B,
    "nvidia/Llama-3.1-8B-Instruct-FP8": LLAMA_8B,
    "meta-llama/Llama-3.1-70B": Architecture(80, 8192, 64, 8, 128, 28672, 128256),
    "Qwen/Qwen3-32B": Architecture(64, 5120, 64, 8, 128, 25600, 151936),
    "Qwen/Qwen3-235B-A22B-FP8": Architecture(
        94, 4096, 64, 4, 128, 0, 151936, experts=128, experts_per_token=8, expert_ffn=1536
    ),
    "openai/gpt-oss-120b": Architecture(
        36, 2880, 64, 8, 64, 0, 201088, experts=128, experts_per_token=4, expert_ffn=2880, window=128
    ),
    "deepseek-ai/DeepSeek-R1": DEEPSEEK,
    "deepseek-ai/DeepSeek-V3": DEEPSEEK,
    "moonshotai/Kimi-K2.5": Architecture(
        61, 7168, 64, 1, 576, 18432, 163840, experts=384, experts_per_token=8, expert_ffn=2048,
        shared_experts=1, dense_layers=1, latent=True,
    ),
    "zhipuai/GLM-5": Architecture(
        78, 6144, 64, 1, 576, 12288, 154880, experts=256, experts_per_token=8, expert_ffn=2048,
        shared_experts=1, dense_layers=3, latent=True,
    ),
    "MiniMaxAI/MiniMax-M2.5": Architecture(
        62, 3072, 48, 8, 128, 0, 200064, experts=256, experts_per_token=8, expert_ffn=1536
    ),
    "Qwen/Qwen3.5-397B-A17B": Architecture(
        60, 4096, 32, 2, 256, 0, 248320, experts=512, experts_per_token=10, expert_ffn=1024,
        shared_experts=1, linear_share=0.75,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """Something measured of an engine; `predict` returns the same quantities."""

    name: str
    suite: str
    group: str
    engine: str
    accelerator: str
    model: Architecture
    place: Placement
    observed: tuple[float, ...]
    kind: str
    prompt: int = 1
    output: int = 1
    batch: float = 0.0
    prefill: Placement | None = None
    """Where prompts run, when not with the decoding."""
    context: float = 0.0

    @property
    def device(self) -> Accelerator:
        """The accelerator's data sheet."""
        return ACCELERATORS[self.accelerator]


def capacity(figure: Figure, share: float, tokens: float) -> float:
    """Sequences of `tokens` tokens whose keys and values fit beside the weights."""
    size = figure.device.capacity * figure.place.tensor * share
    free = size - weight_size(figure.model, figure.place)
    return free / (kv_size(figure.model, figure.place) * tokens)


def predict(constants: Constants, figure: Figure) -> tuple[float, ...]:
    """The quantities of `figure.observed`, predicted."""
    return {
        "decode": _decode,
        "first token": _first_token,
        "static": _static,
        "saturated": _saturated,
        "concurrent": _concurrent,
    }[figure.kind](constants, figure)


def _decode(constants: Constants, f: Figure) -> tuple[float, ...]:
    return (iteration_time(constants, f.device, f.model, f.place, f.batch, f.context),)


def _first_token(constants: Constants, f: Figure) -> tuple[float, ...]:
    return (iteration_time(constants, f.device, f.model, f.place, 0, 0, f.prompt, f.prompt),)


def _static(constants: Constants, f: Figure) -> tuple[float, ...]:
    """Output tokens per second and GPU of a fixed batch, prompts first."""
    at_once = max(1, STATIC_PROMPT_TOKENS // f.prompt)
    passes = -(-f.batch // at_once)
    tokens = f.batch * f.prompt / passes
    prompts = passes * iteration_time(
        constants, f.device, f.model, f.place, 0, 0, tokens, f.prompt
    )  # fmt: skip
    lengths = [f.prompt + f.output * share for share in (0.125, 0.375, 0.625, 0.875)]
    steps = [iteration_time(constants, f.device, f.model, f.place, f.batch, c) for c in lengths]
    seconds = prompts + (f.output - 1) * sum(steps) / 4
    return (f.batch * f.output / seconds / f.place.tensor,)


def _saturated(constants: Constants, f: Figure) -> tuple[float, ...]:
    """Output tokens per second when requests never lack and each reserves all its tokens."""
    overhead = 2e9 / f.device.capacity
    batch = 0.92 * capacity(f, 0.97 - overhead, f.prompt + f.output)
    batch = max(1.0, min(BATCH_LIMIT, batch))
    return (batch / _mixed(constants, f, batch),)


def _mixed(constants: Constants, f: Figure, batch: float) -> float:
    """Mean seconds of an iteration whose prompts keep pace with the outputs."""
    context = f.prompt + f.output / 2
    prompts = batch * f.prompt / f.output
    room = TOKEN_BUDGET - min(batch, 0.9 * TOKEN_BUDGET)
    full = max(1.0, prompts / room) if batch + prompts > TOKEN_BUDGET else 1.0
    tokens = room if batch + prompts > TOKEN_BUDGET else prompts
    one = iteration_time(constants, f.device, f.model, f.place, batch, context, tokens, f.prompt)
    return full * one


def _concurrent(constants: Constants, f: Figure) -> tuple[float, ...]:
    """Seconds per output token and to the first, at a fixed number of requests in flight."""
    fits = capacity(f, 0.9, f.prompt + f.output / 2)
    batch = max(1.0, min(f.batch, fits)) if fits > 1 else f.batch
    context = f.prompt + f.output / 2
    prompts = batch * f.prompt / f.output
    chunk = min(float(f.prompt), TOKEN_BUDGET)

    def step(tokens: float) -> float:
        return iteration_time(
            constants, f.device, f.model, f.place, batch, context, tokens, f.prompt
        )

    if f.prefill is not None:
        per_token = step(0.0)
    elif prompts >= chunk:
        per_token = _mixed(constants, f, batch)
    else:
        # A prompt rides along in some iterations only.
        alone = step(0.0)
        per_token = alone + prompts / chunk * (step(chunk) - alone)
    place = f.prefill or f.place
    alone = iteration_time(constants, f.device, f.model, place, 0, 0, chunk, f.prompt)
    own = f.prompt / chunk * alone
    queue = constants["queue_apart" if f.prefill is not None else "queue"]
    first = own * (1 + queue * (batch - 1) ** constants["queue_power"]) + constants["request"]
    waiting = max(0.0, f.batch / batch - 1) * f.output * per_token
    return per_token, first + waiting


def tensorrt_figures(cases: Iterable[dict[str, Any]]) -> list[Figure]:
    """The TensorRT-LLM tables among published cases."""
    found = []
    for case in cases:
        suite, i, observed = str(case["id"]).split("-")[0], case["inputs"], case["observed"]
        if not suite.startswith("trtllm"):
            continue
        bits = 8 if "fp8" in i["precision"] else 4 if "fp4" in i["precision"] else 16
        weight = {16: 2.0, 8: 1.0, 4: 0.5625}[bits]
        model = Architecture(
            i["layers"], i["hidden"], i["heads"], i["kv_heads"], i["hidden"] // i["heads"],
            i["ffn"], i["vocab"], gated=i["model"].startswith(("LLaMA", "Llama")),
        )  # fmt: skip
        place = Placement(
            i["tp"], 1, 1, bits, weight, weight, 1.0 if bits < 16 else 2.0,
            grouped_decode=suite == "trtllm1.0",
        )  # fmt: skip
        if "first_token_latency_ms" in observed:
            kind, value = "first token", observed["first_token_latency_ms"] / 1e3
        elif "batch" in i:
            kind, value = "static", observed["output_tokens_per_s_per_gpu"]
        else:
            kind, value = "saturated", observed["total_output_tokens_per_s"]
        found.append(
            Figure(
                case["id"], suite, suite, "trtllm", accelerator_named(i["gpu"]) or "H100", model,
                place, (value,), kind, i["isl"], i["osl"], i.get("batch", 0),
            )
        )  # fmt: skip
    return found


def decode_figures(path: Path) -> list[Figure]:
    """Decode steps of a Llama-3-8B shape on one H200 under vLLM."""
    return [
        Figure(
            f"vllm-b{p['batch']}-c{p['context_start']}", "vllm", f"batch {p['batch']}", "vllm",
            "H200", LLAMA_8B, Placement(), (p["step_ms"] / 1e3,), "decode", batch=p["batch"],
            context=p["context_mean"],
        )
        for p in json.loads(path.read_text())
    ]  # fmt: skip


def _whole(text: str, otherwise: int = 1) -> int:
    return int(float(text)) if text and float(text) >= 1 else otherwise


def _concurrency(row: dict[str, str]) -> float:
    if row["mode"] == "agg" and row["batch_size"]:
        return float(row["batch_size"])
    stated = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    stated = stated or re.search(r"_c(\d+)_", row["id"])
    if stated:
        return float(stated.group(1))
    return _whole(row["decode_batch_size"], 16) * float(_whole(row["decode_num_workers"]))


def row_figures(path: Path) -> list[Figure]:
    """Rows on H100 and H200 of aiconfigurator-core's silicon_sample.csv."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["system"] in ("h100_sxm", "h200_sxm")]
    return [_row_figure(row) for row in rows]


def _same_shapes(model: Architecture) -> str:
    """The first name of a model, so that its variants are held out together."""
    return next(name.split("/")[1] for name, known in ARCHITECTURES.items() if known == model)


def _row_figure(row: dict[str, str]) -> Figure:
    model = ARCHITECTURES[row["model_path"]]
    quantised = row["gemm_quant_mode"]
    bits, weight, expert = 16, 2.0, 2.0
    if quantised in ("fp8", "fp8_block"):
        bits, weight, expert = 8, 1.0, 1.0
    if quantised in ("nvfp4", "int4_wo") or "gpt-oss" in row["model_path"]:
        bits, weight, expert = 16, 2.0, 0.53
    together = row["mode"] == "agg"

    def placement(prefix: str) -> Placement:
        experts = _whole(row[f"{prefix}moe_ep_size"])
        tensor = max(_whole(row[f"{prefix}tp_size"]), experts)
        replicas = min(tensor, _whole(row[f"{prefix}attention_dp_size"]))
        return Placement(tensor, experts, replicas, bits, weight, expert, 2.0)

    accelerator = {"h100_sxm": "H100", "h200_sxm": "H200"}[row["system"]]
    place = placement("" if together else "decode_")
    if weight_size(model, place) > 0.9 * place.tensor * ACCELERATORS[accelerator].capacity:
        wide = 16 if accelerator == "H100" else 8
        place = Placement(wide, wide, wide, bits, weight, expert, 2.0)
    workers = 1 if together else _whole(row["decode_num_workers"], UNSTATED_WORKERS)
    return Figure(
        row["id"], "rows", _same_shapes(model), row["backend"],
        accelerator, model, place,
        (float(row["silicon_tpot_ms"]) / 1e3, float(row["silicon_ttft_ms"]) / 1e3), "concurrent",
        int(row["isl"]), int(row["osl"]), _concurrency(row) / workers,
        None if together else placement("prefill_"),
    )  # fmt: skip
