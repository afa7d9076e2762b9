"""Prompts through the engine on a GPU: arithmetic, beside what products of matrices reach."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness.case import Case, Check, Contestant, Trial
from assay.bench.harness.clocks import DeviceClock, ToldClock

if TYPE_CHECKING:
    from assay.bench.suites.engine_cache import EngineCache
    from assay.engine.models.model_shape import ModelShape

PROMPTS: Final = (2048, 8192)
PRODUCT: Final = 8192
"""Rows and columns of the matrices that the ceiling multiplies."""
ROUNDS: Final = 5
LIKELY: Final = 20
NEIGHBOR: Final = 300
"""Tokens of a prompt that another one is computed beside, which moves where its chunks end."""
LOGPROB_TOLERANCE: Final = 0.25
"""How far below the best a chosen token may be: rounding to bfloat16, layer by layer."""


def cases(engines: EngineCache) -> list[Case]:
    """A prompt of each length, from its arrival to its first token."""
    return [
        Case(
            f"prompt of {tokens:,} tokens",
            "TFLOP/s",
            functools.partial(_prompt, engines, tokens),
            {"model": engines.source, "prompt": tokens},
            ROUNDS,
        )
        for tokens in PROMPTS
    ]


def operations(shape: ModelShape, tokens: int) -> float:
    """Products of every layer, attention where the mask leaves it, and logits of one row."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = shape.hidden * (2 * queries + 2 * keys + 3 * shape.inner)
    attention = 4 * queries * tokens * (tokens + 1) / 2
    return shape.layers * (2 * layer * tokens + attention) + 2 * shape.hidden * shape.vocabulary


def _prompt(engines: EngineCache, tokens: int) -> Trial:
    from assay.engine import SamplingParams

    engine = engines.engine("file")
    shape = engine.model.shape
    flops = operations(shape, tokens)

    def draw(number: int) -> list[int]:
        drawn = np.random.default_rng(number).integers(0, shape.vocabulary, tokens)
        return [int(token) for token in drawn]

    def seconds(number: int) -> float:
        """Until the first token is there."""
        prompt, params = draw(number), SamplingParams(max_tokens=1, ignore_eos=True)
        begun = time.perf_counter()
        engine.generate([prompt], params)
        return time.perf_counter() - begun

    def error(number: int) -> float:
        """How far the token is below the best of a pass that was cut into other chunks."""
        prompt = draw(number)
        params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=LIKELY, ignore_eos=True)
        [alone] = engine.generate([prompt], params)
        [_, beside] = engine.generate([prompt[:NEIGHBOR], prompt], params)
        assert beside.logprobs is not None
        likely = dict(beside.logprobs[0].top_logprobs)
        return max(likely.values()) - likely.get(alone.token_ids[0], -np.inf)

    return Trial(
        Contestant("assay", seconds, ToldClock(), flops),
        Check("the prompt beside another one, in logprobs", error, LOGPROB_TOLERANCE),
        ceiling=_product(engines),
        flops=flops,
        note=f"the ceiling is a product of bf16 matrices, {PRODUCT} by {PRODUCT}, in the same "
        "rounds",
        degradations=lambda: engine.describe()["degradations"],
    )


def _product(engines: EngineCache) -> Contestant:
    from assay import ops, xp
    from assay.bench.harness import inputs

    device = engines.device
    a, b = (
        inputs.place(device, inputs.normal((PRODUCT, PRODUCT), seed), "bf16") for seed in (1, 2)
    )
    out = xp.empty((PRODUCT, PRODUCT), dtype=xp.bfloat16, device=device)
    return Contestant(
        "gemm",
        lambda _: ops.batched_matmul(a, b, out=out),
        DeviceClock(device),
        2.0 * PRODUCT**3,
    )
