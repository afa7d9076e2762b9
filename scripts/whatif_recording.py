"""Records the trace that predictions start from: steps of many shapes.

No case of `whatif_cases` is run here: the trace has prefills of powers of two, and decode at batch
1 and 16 (on a GPU 64). Needs no Polars, so that it runs on a machine that has the engine alone.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

import assay
from assay.engine import Engine, SamplingParams
from assay.engine.loading.model_files import ModelFiles

TRACE, SPENT = "trace", "cpu_seconds.json"
"""The trace, and the CPU seconds of each of its steps."""
CPU_PREFILLS: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512)
GPU_PREFILLS: Final = (4, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SAMPLED: Final = (2, 4, 8, 16, 32, 64)
"""Prompts that one step ends together: rows of the logits."""
REPEATS: Final = 4


def record(files: ModelFiles, device: str, folder: Path) -> None:
    """Record into a folder, which must not exist."""
    on_cpu = device == "cpu"
    knobs: dict[str, Any] = {"max_batch": 64, "token_budget": 512 if on_cpu else 4096}
    if on_cpu:
        knobs["threads"] = 1
    engine = Engine.load(files, device, prefix_caching=False, **knobs)
    long = 1024 if on_cpu else 4096
    spent: list[float] = []
    _load(engine, on_cpu, long, spent, warm=True)
    spent.clear()
    with assay.capture(folder / TRACE):
        _load(engine, on_cpu, long, spent, warm=False)
    engine.close()
    (folder / SPENT).write_text(json.dumps(spent) + "\n", encoding="utf-8")


def _load(engine: Engine, on_cpu: bool, long: int, spent: list[float], *, warm: bool) -> None:
    """Steps of many shapes; on a GPU a first round captures the graphs."""
    if warm and on_cpu:
        return _run(engine, [8], 4, spent)
    long_decodes = ((1, long),) if on_cpu else ((1, long), (8, long))
    # In rounds over all shapes: what disturbs the machine disturbs them alike.
    for _ in range(1 if warm else REPEATS):
        for tokens in CPU_PREFILLS if on_cpu else GPU_PREFILLS:
            # Steps in a row: the first finds the caches without the weights.
            for _ in range((5 if tokens <= 64 else 3) if on_cpu else 1):
                _run(engine, [tokens], 1, spent)
        for count in SAMPLED[: 4 if on_cpu else 6]:
            for _ in range(5 if on_cpu else 1):
                _run(engine, [4] * count, 1, spent)
        for batch, prompt in ((1, 32), (16 if on_cpu else 64, 64), *long_decodes):
            _run(engine, [prompt] * batch, 16, spent)


def _run(engine: Engine, prompts: list[int], tokens: int, spent: list[float]) -> None:
    source = np.random.default_rng(sum(prompts))
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    vocabulary = engine.model.shape.vocabulary
    for length in prompts:
        engine.add_request(source.integers(0, vocabulary, length).tolist(), params)
    while engine.has_work:
        begun = time.process_time()
        engine.step()
        spent.append(time.process_time() - begun)
