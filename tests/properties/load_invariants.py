"""What holds for requests that arrive by themselves: Little's law, order by rate, the idle server."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from property_harness import SLACK, Answers, Bug, Draw, Invariant, Violation

from assay.catalog import engines
from assay.planner.evaluation import PROMPT_BUDGET, engine_constants
from assay.planner.questions import LoadPrediction, predict_load, predict_step
from assay.planner.serving_load import PredictedLoad

IDLE = 1e-6
LATENCIES = ("first_token", "output_token", "token_gap", "end_to_end")
LEVELS = ("p50", "p90", "p99")
AGREE = 0.03
SERVER = engines.find("vllm", "open_loop").values
BUDGET = int(engine_constants("vllm").given[PROMPT_BUDGET])
ROUNDING = 0.01
"""Distributions are points, of sums a few hundred: percentiles move in steps, means do not."""


def _answer(draw: Draw, answers: Answers) -> LoadPrediction:
    """Idle, at the drawn rate, and at twice that rate, in one question."""
    values, rate = draw.values, draw.values["rates"]

    def ask() -> LoadPrediction:
        return predict_load(
            draw.entries["models"], draw.entries["accelerators"], [IDLE, rate, 2 * rate],
            prompt=int(values["prompt"]), output=int(values["output"]), tensor=int(values["tensor"]),
            max_running=int(values.get("max-running", 1024)),
            ttft_limit_ms=values.get("ttft-limit"), tpot_limit_ms=values.get("tpot-limit"),
            finds_most=False,
        )  # fmt: skip

    answer = answers.once(("load", tuple(draw.entries.items()), tuple(values.items())), ask)
    assert isinstance(answer, LoadPrediction)
    return answer


def _names(draw: Draw) -> tuple[str, ...]:
    """Latencies that requests have: of one token there is no time between tokens."""
    return LATENCIES if draw.values["output"] > 1 else ("first_token", "end_to_end")


def _row(draw: Draw, answers: Answers, rate: float) -> PredictedLoad | None:
    return next((row for row in _answer(draw, answers).rates if row.rate == rate), None)


def _figures(
    draw: Draw, answers: Answers, row: PredictedLoad
) -> Iterator[tuple[str, float, float, float]]:
    """Every latency with the ends of its interval."""
    for name in _names(draw):
        for level in ("mean", *LEVELS):
            key = f"{name}.{level}"
            ends = [
                math.inf if end is None else getattr(getattr(end, name), level)
                for end in (row, row.lo, row.hi)
            ]
            value = answers.seen(draw.changed({"rates": row.rate}), key, ends[0])
            yield key, value, ends[1], ends[2]


def _value(draw: Draw, answers: Answers, row: PredictedLoad, name: str, level: str) -> float:
    number = getattr(getattr(row, name), level)
    return answers.seen(draw.changed({"rates": row.rate}), f"{name}.{level}", number)


def little(draw: Draw, answers: Answers) -> Violation | None:
    """Requests there are the rate times their stay."""
    if (row := _row(draw, answers, draw.values["rates"])) is None:
        return None
    stay = _value(draw, answers, row, "end_to_end", "mean")
    if math.isclose(row.running, row.rate * stay, rel_tol=1e-6):
        return None
    return Violation(
        f"{row.running:.6g} requests there, {row.rate * stay:.6g} by Little's law", "", (draw,)
    )


def rises(name: str) -> Invariant:
    """A latency does not fall as the rate grows, from idle on."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        rows = _answer(draw, answers).rates
        if name == "output_token" and draw.values["output"] < 2:
            # There is no time between tokens.
            return None
        for few, many in itertools.pairwise(rows):
            for level in ("mean", *LEVELS):
                before, after = (_value(draw, answers, row, name, level) for row in (few, many))
                if after < before * (1 - (SLACK if level == "mean" else ROUNDING)):
                    text = f"{name} {level} fell from {before:.6g} to {after:.6g} s"
                    draws = tuple(draw.changed({"rates": row.rate}) for row in (few, many))
                    return Violation(text, "", draws)
        return None

    def bug(draw: Draw, what: str, number: float) -> float:
        return number + 0.4 / draw.values["rates"] if what.startswith(name) else number

    return Invariant(f"{name} does not fall with the rate", "load", check, bug)


def saturates_once(draw: Draw, answers: Answers) -> Violation | None:
    """A server that is saturated at a rate is saturated at twice the rate."""
    refused = [rate for rate, _ in _answer(draw, answers).refused]
    rate = draw.values["rates"]
    seen = answers.seen(draw, "saturated", float(2 * rate in refused))
    if rate not in refused or seen:
        return None
    return Violation(f"saturated at {rate:g}, not at {2 * rate:g}", "", (draw,))


def idle(draw: Draw, answers: Answers) -> Violation | None:
    """All requests of an idle server see the same first token, and nobody else."""
    row = _row(draw, answers, IDLE)
    if row is None:
        return Violation(
            "saturated by a request in eleven days", "", (draw.changed({"rates": IDLE}),)
        )
    low, high = (_value(draw, answers, row, "first_token", level) for level in ("p50", "p99"))
    if row.verdict == "idle" and high <= low * (1 + ROUNDING):
        return None
    text = f"idle server: {row.verdict}, TTFT {low:.6g} to {high:.6g} s"
    return Violation(text, "", (draw.changed({"rates": IDLE}),))


def ordered(draw: Draw, answers: Answers) -> Violation | None:
    """Percentiles grow with their level."""
    if (row := _row(draw, answers, draw.values["rates"])) is None:
        return None
    for name in _names(draw):
        values = [_value(draw, answers, row, name, level) for level in LEVELS]
        if values != sorted(values):
            return Violation(f"{name}: percentiles {values}", "", (draw,))
    return None


def held(draw: Draw, answers: Answers) -> Violation | None:
    """Every figure is inside its interval."""
    for row in _answer(draw, answers).rates:
        for key, value, low, high in _figures(draw, answers, row):
            if not low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
                text = f"{key}: {value:.6g}, but {low:.6g} to {high:.6g}"
                return Violation(text, "", (draw.changed({"rates": row.rate}),))
    return None


def lone_request(draw: Draw, answers: Answers) -> Violation | None:
    """An idle server takes as long for a request as `predict` says of its steps, one by one."""
    row = _row(draw, answers, IDLE)
    if row is None:
        return None
    model, gpu = (draw.entries[group] for group in ("models", "accelerators"))
    prompt, output = int(draw.values["prompt"]), int(draw.values["output"])
    tensor = int(draw.values["tensor"])

    def seconds(**batch: Any) -> float:
        steps = predict_step(model, gpu, tensor=tensor, context=prompt + output // 2, **batch)
        return steps.graph.totals["step"].value * 1e-9

    def ask() -> tuple[float, float]:
        whole, rest = divmod(prompt, BUDGET)
        own = [
            count * seconds(sequences=0, prefill_tokens=tokens, prompt=prompt)
            for count, tokens in ((whole, BUDGET), (1, rest))
            if count and tokens
        ]
        return seconds(sequences=1), math.fsum(own)

    step, prefill = answers.once(
        ("steps", tuple(draw.entries.items()), tuple(draw.values.items())), ask
    )
    first = SERVER["serving.request_time"] + prefill + SERVER["serving.first_iterations"] * step
    figures = {"first_token": first, "end_to_end": first + (output - 1) * step}
    for name, expected in figures.items():
        value = _value(draw, answers, row, name, "mean")
        if abs(value / expected - 1) > AGREE:
            text = f"idle {name}: {value:.6g} s, {expected:.6g} by predict, step by step"
            return Violation(text, "", (draw.changed({"rates": IDLE}),))
    return None


def goodput(draw: Draw, answers: Answers) -> Violation | None:
    """No more requests are in time than arrive."""
    for row in _answer(draw, answers).rates:
        value = answers.seen(draw, "goodput", row.goodput)
        if value > row.rate * (1 + 1e-9):
            return Violation(f"goodput {value:g} of {row.rate:g}", "", (draw,))
    return None


def _spoiled(name: str, factor: float, plus: float = 0.0) -> Bug:
    return lambda _, what, number: number * factor + plus if what == name else number


INVARIANTS = (
    Invariant("Little's law of an open loop", "load", little, _spoiled("end_to_end.mean", 2.0)),
    rises("first_token"),
    rises("end_to_end"),
    rises("output_token"),
    Invariant("saturation has no end", "load", saturates_once, _spoiled("saturated", 0.0)),
    Invariant("an idle server has one latency", "load", idle, _spoiled("first_token.p99", 2.0)),
    Invariant("percentiles are ordered", "load", ordered, _spoiled("first_token.p99", 0.1)),
    Invariant("latencies are in their intervals", "load", held, _spoiled("end_to_end.p50", 100.0, 1e6)),
    Invariant("an idle server is predict, step by step", "load", lone_request, _spoiled("end_to_end.mean", 1.05)),
    Invariant("goodput is at most the arrivals", "load", goodput, _spoiled("goodput", 2.0)),
)  # fmt: skip
