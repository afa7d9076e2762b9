"""What holds for a server under any load: queues, order by load and length, floors."""

from __future__ import annotations

import math
from collections.abc import Callable

from property_harness import SLACK, Answers, Bug, Draw, Invariant, Violation

FIRST = "serving.time_to_first_token"
STEP = "serving.step_time"
END = "serving.end_to_end_time"
RATE = "serving.request_rate"
CONCURRENCY, PROMPT, OUTPUT = "serving.concurrency", "serving.prompt", "serving.output"

Check = Callable[[Draw, Answers], Violation | None]


def scaled(name: str, factor: Callable[[Draw], float]) -> Bug:
    """A product that answers a variable times a factor by the draw."""
    return lambda draw, what, number: number * factor(draw) if what == name else number


def not_below(
    name: str, change: str, factor: float = 2.0, least: Callable[[Draw], bool] = lambda _: True
) -> Check:
    """A figure that does not fall when a value of the draw grows."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        if not least(draw):
            return None
        more = draw.changed({change: draw.given(change) * factor})
        before, after = answers.value(draw, name), answers.value(more, name)
        if not after < before * (1 - SLACK):
            return None
        text = f"{name} fell from {before:.6g} to {after:.6g} with {factor:g} times {change}"
        return Violation(text, name, (draw, more))

    return check


def little(draw: Draw, answers: Answers) -> Violation | None:
    """Requests there are requests a second times their stay."""
    there = answers.value(draw, RATE) * answers.value(draw, END)
    asked = draw.given(CONCURRENCY)
    if math.isnan(there) or math.isclose(there, asked, rel_tol=1e-6):
        return None
    text = f"Little's law: expected {asked:g} requests, rate times latency gives {there:.6g}"
    return Violation(text, RATE, (draw,))


def lone(draw: Draw, answers: Answers) -> Violation | None:
    """The first token of a lone request does not depend on the length of its answer."""
    alone = draw.changed({CONCURRENCY: 1.0, OUTPUT: 2.0})
    longer = alone.changed({OUTPUT: 512.0})
    short, long = answers.value(alone, FIRST), answers.value(longer, FIRST)
    # A lone decoding step reads a longer context at most.
    slower = answers.value(longer, STEP) / answers.value(alone, STEP)
    if not long > short * max(slower, 1.0) * 1.05:
        return None
    return Violation(f"{FIRST} of one request: {short:.6g}, {long:.6g}", FIRST, (alone, longer))


def floors(draw: Draw, answers: Answers) -> Violation | None:
    """No iteration is faster than the roofline of its kernels."""
    for name in ("decode", "mixed", "burst"):
        least, time = (
            answers.value(draw, f"serving.{name}.{part}") for part in ("floor_time", "time")
        )
        if time < least * (1 - SLACK):
            text = f"{name} iteration: expected at least {least:.6g} s, got {time:.6g}"
            return Violation(text, f"serving.{name}.time", (draw,))
    return None


INVARIANTS = (
    Invariant(
        "Little's law of a closed loop", "serving", little,
        scaled(RATE, lambda draw: 1.3 if draw.given(CONCURRENCY) > 1 else 1.0), (RATE, END),
    ),
    Invariant(
        "TTFT does not fall with concurrency", "serving", not_below(FIRST, CONCURRENCY),
        scaled(FIRST, lambda draw: draw.given(CONCURRENCY) ** -1.1), (FIRST,),
    ),
    Invariant(
        "latency does not fall with concurrency", "serving", not_below(END, CONCURRENCY),
        scaled(END, lambda draw: draw.given(CONCURRENCY) ** -1.1), (END,),
    ),
    Invariant(
        "a lone request waits for nobody", "serving", lone,
        scaled(FIRST, lambda draw: 1 + draw.given(OUTPUT) / 100), (FIRST, STEP),
    ),
    Invariant(
        "no iteration below its floor", "serving", floors,
        scaled("serving.decode.time", lambda _: 1e-3),
        tuple(f"serving.{name}.{part}" for name in ("decode", "mixed", "burst") for part in ("floor_time", "time")),
    ),
)  # fmt: skip
