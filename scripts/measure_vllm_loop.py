"""The whole loop over vLLM with dummy weights, from eager launches, on one GPU.

    VLLM_ENABLE_V1_MULTIPROCESSING=0 python scripts/measure_vllm_loop.py FOLDER SECONDS

makes the shape of Llama-3-8B in FOLDER/model, starts an `LLM` with enforce_eager in this process, and
runs `optimize` on single-stream decode with the lever cuda-graphs. The run, with its report, is stored
in FOLDER/runs. A start takes about 80 s with the import, a change 20 to 60 s.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

SHAPE: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False,
    "attention_dropout": 0.0, "mlp_bias": False, "bos_token_id": 128000, "eos_token_id": 128001,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "max_position_embeddings": 16384, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "use_cache": True, "vocab_size": 128256,
}  # fmt: skip
"""The configuration of Llama-3-8B with a context of 16,384 tokens."""


def main(folder: Path, seconds: float) -> None:
    """Start vLLM, and improve it for so long."""
    begun = time.monotonic()
    model = (folder / "model").resolve()
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(SHAPE), encoding="utf-8")
    arguments: dict[str, Any] = {
        "model": str(model),
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "max_model_len": 4096,
        # Little, so that an engine that is not freed at once leaves room for the next.
        "gpu_memory_utilization": 0.3,
        "enable_prefix_caching": False,
        "dtype": "bfloat16",
        "enforce_eager": True,
    }
    from vllm import LLM

    from assay.improve.engines.vllm_in_process import VllmInProcess
    from assay.improve.loop.optimize import optimize
    from assay.improve.workloads.builtin import workload

    engine = VllmInProcess(LLM(**arguments), arguments)
    print(f"started in {time.monotonic() - begun:.0f} s", engine.describe(), flush=True)
    outcome = optimize(
        engine,
        budget=seconds,
        target=0.15,
        workload=workload("vllm-decode", concurrency=1),
        only=("cuda-graphs",),
        root=folder / "runs",
    )
    print(json.dumps(outcome.to_json(), indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
