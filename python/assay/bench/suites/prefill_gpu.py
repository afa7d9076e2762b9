"""Prefill through the engine on a GPU, beside the rate of a large GEMM."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness.case import Case, Check, PreparedCase, Subject
from assay.bench.harness.clocks import DeviceClock, SelfTimedClock

if TYPE_CHECKING:
    from assay.bench.suites.engine_cache import EngineCache
    from assay.engine.models.model_shape import ModelShape

PROMPTS: Final = (2048, 8192)
GEMM_SIZE: Final = 8192
"""Rows and columns of the matrices of the ceiling's GEMM."""
ROUNDS: Final = 5
TOP_LOGPROBS: Final = 20
OTHER_PROMPT: Final = 300
"""Tokens of a second prompt in the batch, which shifts the chunk boundaries of the first."""
LOGPROB_TOLERANCE: Final = 0.25
"""Allowed gap to the best logprob: rounding to bfloat16 in every layer."""


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


def prefill_flops(shape: ModelShape, tokens: int) -> float:
    """FLOPs of the GEMMs of every layer, of causal attention, and of the logits of one row.

    Every layer of a mixture of experts is taken to have experts.
    """
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = shape.hidden * (2 * queries + 2 * keys + 3 * shape.inner)
    if shape.experts is not None:
        layer += shape.hidden * (3 * shape.experts.top_k * shape.experts.inner)
        layer += shape.hidden * shape.experts.experts
    attention = 4 * queries * tokens * (tokens + 1) / 2
    return shape.layers * (2 * layer * tokens + attention) + 2 * shape.hidden * shape.vocabulary


def _prompt(engines: EngineCache, tokens: int) -> PreparedCase:
    from assay.engine import SamplingParams

    engine = engines.engine("file")
    shape = engine.model.shape
    flops = prefill_flops(shape, tokens)

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
        """Logprob gap of the token in a pass with other chunk boundaries."""
        prompt = draw(number)
        params = SamplingParams(
            max_tokens=1, temperature=0.0, logprobs=TOP_LOGPROBS, ignore_eos=True
        )
        [alone] = engine.generate([prompt], params)
        [_, batched] = engine.generate([prompt[:OTHER_PROMPT], prompt], params)
        assert batched.logprobs is not None
        likely = dict(batched.logprobs[0].top_logprobs)
        return max(likely.values()) - likely.get(alone.token_ids[0], -np.inf)

    return PreparedCase(
        Subject("assay", seconds, SelfTimedClock(), flops),
        Check("the prompt in a batch with another one, in logprobs", error, LOGPROB_TOLERANCE),
        ceiling=_gemm(engines),
        flops=flops,
        note=f"the ceiling is a bf16 GEMM of {GEMM_SIZE} by {GEMM_SIZE} matrices in the same rounds",
        degradations=lambda: engine.describe()["degradations"],
    )


def _gemm(engines: EngineCache) -> Subject:
    from assay import ops, xp
    from assay.bench.harness import inputs

    device = engines.device
    a, b = (
        inputs.upload(device, inputs.standard_normal((GEMM_SIZE, GEMM_SIZE), seed), "bf16")
        for seed in (1, 2)
    )
    out = xp.empty((GEMM_SIZE, GEMM_SIZE), dtype=xp.bfloat16, device=device)
    return Subject(
        "gemm", lambda _: ops.batched_matmul(a, b, out=out), DeviceClock(device), 2.0 * GEMM_SIZE**3
    )
