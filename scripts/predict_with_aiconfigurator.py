"""Writes what AIConfigurator predicts for the published serving cases, for the leaderboard of `assay validate`.

The package is no dependency of Assay: install it beside it, run this, and commit the file.

    pip install aiconfigurator==0.12.0
    python scripts/predict_with_aiconfigurator.py

Every case has the system, engine, formats, lengths and ranks that Assay reads from it. Where a case leaves the number
of running requests open (a saturated server), it is the one that Assay computes. The package's tables are those of the
newest release of each engine. A case that it refuses has its reason in the file.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import sys
from pathlib import Path
from typing import Any

from assay import json_records
from assay.errors import AssayError
from assay.validate.cases import published_cases, read_cases
from assay.validate.rivals import FILE
from assay.validate.serving.deployments import Deployment, deployment_of
from assay.validate.serving.predict import points_of

MODELS = {
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B", "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "llama-3.3-70b": "meta-llama/Meta-Llama-3.1-70B", "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1", "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "qwen3-0.6b": "Qwen/Qwen3-0.6B", "qwen3-8b": "Qwen/Qwen3-8B", "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B", "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
    "qwen3.5-397b-a17b": "Qwen/Qwen3.5-397B-A17B", "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b", "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "kimi-k2.5": "moonshotai/Kimi-K2.5", "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
}  # fmt: skip
"""Models that the package has shapes of, by their names in the catalog."""


def formats(deployment: Deployment) -> dict[str, str]:
    """The number formats of a deployment in the package's words."""
    values = deployment.values
    narrow = (
        "fp8_block" if deployment.engine != "trtllm" or "deepseek" in deployment.model else "fp8"
    )
    gemm = {16: "bfloat16", 8: narrow, 4: "nvfp4"}[int(values["serving.compute_bits"])]
    experts = {16: "bfloat16", 8: narrow, 4: "nvfp4"}[int(values["serving.expert_bits"])]
    if values["serving.expert_bytes"] == 0.53125:
        experts = "w4a8_mxfp4_mxfp8" if values["serving.expert_bits"] == 8 else "w4a16_mxfp4"
    cache = "fp8" if values["serving.kv_bytes"] == 1 else "bfloat16"
    return {"gemm_quant_mode": gemm, "moe_quant_mode": experts, "kvcache_quant_mode": cache}


def estimate(deployment: Deployment, batch: float) -> dict[str, float]:
    """Figures of one deployment; raises what the package raises."""
    cli: Any = importlib.import_module("aiconfigurator.cli.api")
    values = deployment.values
    name = MODELS.get(deployment.model.lower().replace(" ", "-"))
    if name is None:
        raise ValueError(f"no shapes of {deployment.model}")
    if values["serving.separate"]:
        raise ValueError("workers of disaggregated deployments are not stated")
    gpus, replicas = int(values["serving.tensor"]), int(values["serving.attention_replicas"])
    experts = int(values["serving.expert"])
    static = bool(values["serving.static"])
    result = cli.cli_estimate(
        name, deployment.system, mode="static" if static else "agg", backend_name=deployment.engine,
        isl=max(round(values["serving.prompt"]), 1), osl=max(round(values["serving.output"]), 2),
        batch_size=max(round(batch / replicas), 1), tp_size=gpus // replicas,
        pp_size=int(values["serving.pipeline"]), attention_dp_size=replicas, moe_ep_size=experts,
        moe_tp_size=gpus // experts, **formats(deployment),
    )  # fmt: skip
    figures = {
        "time_to_first_token": float(result.ttft) / 1e3, "step_time": float(result.tpot) / 1e3,
        "median_interval": float(result.tpot) / 1e3,
        "throughput_per_gpu": float(result.raw["tokens/s/gpu"]),
    }  # fmt: skip
    figures["throughput"] = figures["throughput_per_gpu"] * gpus * int(values["serving.pipeline"])
    if result.power_w is not None:
        figures["board_power"] = float(result.power_w) * gpus
    return figures


def main(files: list[Path]) -> int:
    """Write the file of predictions."""
    logging.disable(logging.WARNING)
    cases = [case for case in read_cases(files) if case.kind == "inference"]
    deployments = []
    for case in cases:
        try:
            deployments.append(deployment_of(case))
        except AssayError:
            continue
    batches = points_of(deployments).evaluate(["serving.batch"])["serving.batch"]
    records: dict[str, Any] = {
        "provenance": {
            "package": f"aiconfigurator {importlib.metadata.version('aiconfigurator')}",
            "command": "python scripts/predict_with_aiconfigurator.py",
        }
    }
    for deployment, batch in zip(deployments, batches, strict=True):
        try:
            figures = estimate(deployment, batch)
            record: dict[str, Any] = {
                "figures": {name: float(f"{value:.5g}") for name, value in figures.items()}
            }
        except Exception as error:  # The package raises errors of many kinds.
            record = {"reason": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
        records[deployment.case.id] = record
        print(f"{len(records) - 1} of {len(deployments)}", file=sys.stderr, flush=True)
    FILE.write_text(json_records.dumps(records, 1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or list(published_cases())))
