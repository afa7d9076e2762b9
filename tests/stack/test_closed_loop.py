"""A closed loop against an event simulation of an engine, and by what no queue can break."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from assay.planner import BatchConfig, hardware_spec, model_spec
from assay.planner.sweep import sweep
from assay.scenario import built_in
from assay.scenario.includes import include

PRESET = "llama3_8b_h200_serving"


@cache
def _given(accelerator: str) -> dict[str, float]:
    base = built_in.preset(PRESET)
    scenario = base.with_includes([include(f"accelerators/{accelerator}", base.registry)])
    return dict(scenario.exact_inputs.given)


def ask(name: str, accelerator: str = "h200_sxm", **changes: float) -> float:
    values = _given(accelerator) | {f"serving.{key}": value for key, value in changes.items()}
    base = built_in.preset(PRESET)
    found = base.registry.resolve(f"serving.{name}", values, base.variants, intervals=False)
    return found.require_value()


@dataclass
class Running:
    start: float
    first: float = 0.0
    prompt_left: int = 0
    tokens_left: int = 0


def simulate(
    accelerator: str, clients: int, prompt: int, output: int, budget: int = 8192
) -> tuple[float, float, float]:
    """Rate, mean TTFT and mean latency of clients that send again when they are answered."""
    numbers = [0, 1, *(2**n for n in range(1, clients.bit_length() + 1))]
    chunks = [0, *np.linspace(1, budget, 17).round().astype(int).tolist()]
    batch = BatchConfig(sequences=1, context=prompt + output // 2, prompt=prompt, prefill_tokens=1)
    table = np.array(
        [
            sweep(
                model_spec("llama-3.1-8b"), hardware_spec(accelerator), batch,
                {"sequences": [number], "prefill_tokens": [c for c in chunks if c or number]},
            ).step_ns.tolist()
            for number in numbers[1:]
        ]
    )  # fmt: skip
    alone = sweep(
        model_spec("llama-3.1-8b"), hardware_spec(accelerator), batch,
        {"sequences": [0], "prefill_tokens": chunks[1:]},
    ).step_ns  # fmt: skip
    table = np.vstack([[0.0, *alone], table]) / 1e9

    def seconds(decoding: int, tokens: int) -> float:
        by_number = [np.interp(tokens, chunks, row) for row in table]
        return float(np.interp(decoding, numbers, by_number))

    waiting = deque(Running(0.0, 0.0, prompt, output) for _ in range(clients))
    decoding: list[Running] = []
    now, firsts, ends = 0.0, [], []
    while len(ends) < 6 * clients + 20:
        room, tokens, done = budget - len(decoding), 0, []
        for request in waiting:
            taken = min(room, request.prompt_left)
            request.prompt_left -= taken
            room, tokens = room - taken, tokens + taken
            if request.prompt_left:
                break
            done.append(request)
        now += seconds(len(decoding), tokens)
        for request in decoding:
            request.tokens_left -= 1
        for request in done:
            waiting.popleft()
            request.first, request.tokens_left = now, request.tokens_left - 1
            firsts.append(now - request.start)
            decoding.append(request)
        for request in [r for r in decoding if r.tokens_left == 0]:
            decoding.remove(request)
            ends.append((now, now - request.start))
            waiting.append(Running(now, 0.0, prompt, output))
    # The first answers all started at once.
    part = ends[2 * clients :]
    rate = (len(part) - 1) / (part[-1][0] - part[0][0])
    return rate, float(np.mean(firsts[2 * clients :])), float(np.mean([end for _, end in part]))


@pytest.mark.parametrize(
    ("accelerator", "clients", "prompt", "output"),
    [
        ("h200_sxm", 1, 1024, 64),
        ("h200_sxm", 64, 1024, 256),
        # Prefill fills every iteration: requests queue for the token budget.
        ("h100_sxm", 64, 4000, 5),
        ("h100_sxm", 4, 100_000, 1),
        ("h100_sxm", 4, 32_000, 4),
        ("h100_sxm", 256, 512, 16),
    ],
)
def test_rate_and_latency_are_those_of_a_simulated_engine(
    accelerator: str, clients: int, prompt: int, output: int
) -> None:
    # The server's own time before a first token is no part of the simulation.
    rate, first, end = simulate(accelerator, clients, prompt, output)
    load = {"concurrency": float(clients), "prompt": float(prompt), "output": float(output)}
    assert ask("request_rate", accelerator, **load) == pytest.approx(rate, rel=0.15)
    assert ask("end_to_end_time", accelerator, **load) == pytest.approx(end, rel=0.15)
    if clients < 100 and output < 100:
        known = _given(accelerator)
        first += known["serving.request_time"]
        first += known["serving.first_iterations"] * ask("step_time", accelerator, **load)
        assert ask("time_to_first_token", accelerator, **load) == pytest.approx(first, rel=0.2)


@pytest.mark.parametrize(
    ("clients", "prompt", "output"), [(44, 148, 1), (182, 38, 2), (18, 1958, 5)]
)
def test_short_answers_bring_no_more_prompts_than_there_are_clients(
    clients: int, prompt: int, output: int
) -> None:
    _, _, end = simulate("h100_sxm", clients, prompt, output)
    load = {"concurrency": float(clients), "prompt": float(prompt), "output": float(output)}
    assert ask("end_to_end_time", "h100_sxm", **load) == pytest.approx(end, rel=0.15)


def test_decoding_elsewhere_takes_no_room_from_prompts() -> None:
    load = {"concurrency": 1024.0, "output": 64.0, "prompt_budget": 1024.0, "separate": 1.0}
    short, long = (ask("own_prompt_time", **load, prompt=prompt) for prompt in (1024.0, 2048.0))
    assert ask("prompt_room", **load, prompt=1024.0) == 1024
    assert short < long < 3 * short


def test_a_lone_request_waits_for_nobody_however_long_its_answer() -> None:
    short, long = (
        ask("time_to_first_token", concurrency=1.0, output=output) for output in (16.0, 4096.0)
    )
    assert long == pytest.approx(short, rel=0.02)
    assert long < 0.035


def test_prompts_are_completed_as_fast_as_they_are_read() -> None:
    load = {"concurrency": 4.0, "prompt": 100_000.0, "output": 1.0}
    by_prompts = ask("prompt_throughput", "h100_sxm", **load) / 100_000
    assert ask("request_rate", "h100_sxm", **load) == pytest.approx(by_prompts, rel=0.03)
