"""What a server of a model does under open-loop load, by arrival rate.

The times of iterations are those of `predict`; queues and percentiles are those of `open_loop`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from assay.answers import Progress, silent
from assay.catalog import engines
from assay.errors import EvaluationError, InputError
from assay.lazy_import import LazyModule
from assay.planner.evaluation import PROMPT_BUDGET, engine_constants
from assay.planner.open_loop import IterationTime, OpenLoop, Requests, open_loop
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.sweep import sweep

if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy", globals(), "np")

_GRID: Final = 1.3
"""Ratio of the numbers of requests at which steps are evaluated; lines join them."""


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """Requests of one length that arrive as a Poisson process.

    `prefix_hits` is the share of prompt tokens whose KV cache is there already, `most_running`
    the engine's limit (max_num_seqs) or what the KV cache holds.
    """

    prompt: int
    output: int
    prefix_hits: float = 0.0
    most_running: int = 1024
    first_token_limit: float = math.inf
    output_token_limit: float = math.inf

    def __post_init__(self) -> None:
        if self.prompt < 1 or self.output < 1:
            raise InputError(
                f"load: expected lengths of 1 token or more, got {self.prompt} and {self.output}"
            )
        if not 0 <= self.prefix_hits < 1:
            raise InputError(f"prefix hits: expected 0 to below 1, got {self.prefix_hits:g}")
        if self.most_running < 1:
            raise InputError(f"running requests: expected 1 or more, got {self.most_running}")


def latencies(
    model: ModelSpec,
    hardware: HardwareSpec,
    batch: BatchConfig,
    load: ServedLoad,
    rates: Sequence[float],
    progress: Progress = silent,
) -> tuple[list[OpenLoop], list[tuple[float, str]]]:
    """The latencies of a server at each arrival rate, and why it cannot keep up with others."""
    fresh = max(round(load.prompt * (1 - load.prefix_hits)), 1)
    budget = int(engine_constants(batch.engine).given[PROMPT_BUDGET])
    units = math.ceil(fresh / budget)
    at_once = max(budget // fresh, 1)
    tokens = min(fresh, budget)
    iteration = _iterations(model, hardware, batch, load, tokens, at_once)
    drafted = batch.speculative_tokens
    accepted = batch.acceptance or 0.0
    emitted = drafted + 1.0 if accepted >= 1 else (1 - accepted ** (drafted + 1)) / (1 - accepted)
    rows: list[OpenLoop] = []
    refused: list[tuple[float, str]] = []
    for rate in rates:
        progress(f"{rate:g} requests/s")
        requests = Requests(
            rate=rate, output=load.output, units=units, units_at_once=at_once, emitted=emitted,
            most_running=load.most_running, **_server(batch.engine),
        )  # fmt: skip
        try:
            rows.append(
                open_loop(requests, iteration, load.first_token_limit, load.output_token_limit)
            )
        except EvaluationError as error:
            refused.append((rate, error.message))
    return rows, refused


def _server(engine: str) -> dict[str, float]:
    """What a server adds to a first token; the engine of Assay is called in its own process."""
    given = engines.given(engine, "offline" if engine == "assay" else "open_loop")
    return {
        "request_seconds": given["serving.request_time"],
        "late_iterations": given["serving.first_iterations"],
    }


def _iterations(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig, load: ServedLoad, tokens: int,
    at_once: int,
) -> IterationTime:  # fmt: skip
    """Seconds of an iteration by decoding requests and units of prompts, from one tape."""
    numbers = [0, 1]
    while numbers[-1] < load.most_running:
        numbers.append(min(math.ceil(numbers[-1] * _GRID), load.most_running))
    chosen = replace(
        batch, context=load.prompt + load.output // 2, prompt=load.prompt, sequences=1,
        prefill_tokens=0,
    )  # fmt: skip
    prefills = [tokens * units for units in range(at_once + 1)]
    table = np.zeros((len(numbers), len(prefills)))
    step_ns = sweep(
        model, hardware, chosen, {"sequences": numbers[1:], "prefill_tokens": prefills}
    ).step_ns
    table[1:] = np.reshape(step_ns, (len(numbers) - 1, len(prefills))) * 1e-9
    alone = sweep(
        model, hardware, replace(chosen, sequences=0, prefill_tokens=tokens),
        {"prefill_tokens": prefills[1:]},
    ).step_ns  # fmt: skip
    table[0, 1:] = alone * 1e-9
    known = np.array(numbers, dtype=np.float64)

    def seconds(decoding: int, units: int) -> float:
        return float(np.interp(decoding, known, table[:, units]))

    return seconds
