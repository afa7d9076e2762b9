"""What holds for a server under any load: queues, order by load and length, floors."""

from __future__ import annotations

import math

from property_harness import SLACK, Answers, Draw, Invariant, Violation
from statements import at_most, by, not_above, not_below, scaled

FIRST = "serving.time_to_first_token"
STEP = "serving.step_time"
END = "serving.end_to_end_time"
RATE = "serving.request_rate"
CAPACITY = "serving.capacity"
PIN_RATE, MEMORY = "hbm.pin_rate", "gpu.memory.capacity"
CONCURRENCY, PROMPT, OUTPUT = "serving.concurrency", "serving.prompt", "serving.output"


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
    if not long > short * max(slower, 1.0) * (1 + SLACK):
        return None
    return Violation(f"{FIRST} of one request: {short:.6g}, {long:.6g}", FIRST, (alone, longer))


def _prompt_token_time(draw: Draw, answers: Answers) -> float:
    """Time that a token of a prompt adds to an iteration."""
    decode, mixed, chunk = (
        answers.value(draw, f"serving.{name}") for name in ("decode.time", "mixed.time", "chunk")
    )
    return max(mixed - decode, 1e-12) / chunk


def longer_prompt(draw: Draw, answers: Answers) -> Violation | None:
    """A longer prompt has no earlier first token, where the GPUs are the same.

    Disaggregated prefill has as many instances as keep up: more where prompts are longer.
    """
    return None if draw.given("serving.separate") else not_below(FIRST, PROMPT)(draw, answers)


def longer_output(draw: Draw, answers: Answers) -> Violation | None:
    """A longer answer takes longer, where the GPUs are the same.

    Disaggregated prefill has as many instances as keep up: fewer where answers are longer. And where
    answers are longer, fewer prompts come in an iteration: they may fill the tiles of kernels better, so
    that a token of a prompt takes less.
    """
    more = draw.changed({OUTPUT: 2 * draw.given(OUTPUT)})
    if draw.given("serving.separate"):
        return None
    before, after = answers.value(draw, END), answers.value(more, END)
    token, other = (_prompt_token_time(each, answers) for each in (draw, more))
    if after >= before * min(other / token, 1.0) * (1 - SLACK):
        return None
    text = f"{END} went from {before:.6g} to {after:.6g} with twice {OUTPUT}"
    return Violation(text, END, (draw, more))


def longer_context(draw: Draw, answers: Answers) -> Violation | None:
    """A decode step of one request takes no less time with a longer context.

    Of many requests the KV cache holds the fewer, the longer they are, and a prompt in chunks leaves
    iterations that decode nothing.
    """
    alone = draw.changed({CONCURRENCY: 1.0, "serving.prompt_budget": 2.0**22})
    return not_below("serving.decode.time", PROMPT)(alone, answers)


def saturated(draw: Draw, answers: Answers) -> Violation | None:
    """Where ever more requests wait, as many are completed as the server can, and no more are."""
    many = draw.changed({CONCURRENCY: 1e9})
    rate, most = answers.value(many, RATE), answers.value(many, CAPACITY)
    if math.isclose(rate, most, rel_tol=1e-6):
        return None
    return Violation(f"a billion requests: {rate:.6g} of {most:.6g} requests/s", RATE, (many,))


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


def cache_sum(draw: Draw, answers: Answers) -> Violation | None:
    """The KV cache of as many requests as fit is the memory for it, on all GPUs."""
    fit = answers.value(draw, "serving.requests_that_fit")
    used = fit * answers.value(draw, "serving.kv.request_memory")
    free = answers.value(draw, "serving.cache_memory") * answers.value(
        draw, "serving.instance_gpus"
    )
    if math.isclose(used, free, rel_tol=1e-6):
        return None
    text = f"KV cache: expected {free:.6g} bytes, {fit:.6g} requests take {used:.6g}"
    return Violation(text, "serving.requests_that_fit", (draw,))


def output_floor(draw: Draw, answers: Answers) -> Violation | None:
    """A batch gains a token each in no less than the roofline of a decode iteration."""
    if draw.given(OUTPUT) < 2:
        return None
    rate, least = (
        answers.value(draw, "serving.throughput"),
        answers.value(draw, "serving.decode.floor_time"),
    )
    # The first token comes with the prompt.
    most = (
        answers.value(draw, "serving.batch") / least * draw.given(OUTPUT) / (draw.given(OUTPUT) - 1)
    )
    if rate <= most * (1 + SLACK):
        return None
    text = f"throughput: expected at most {most:.6g} tokens/s, got {rate:.6g}"
    return Violation(text, "serving.throughput", (draw,))


INVARIANTS = (
    Invariant(
        "Little's law of a closed loop", "serving", little,
        scaled(RATE, lambda draw: 1.3 if draw.given(CONCURRENCY) > 1 else 1.0), (RATE, END),
    ),
    Invariant(
        "TTFT does not fall with concurrency", "serving", not_below(FIRST, CONCURRENCY),
        scaled(FIRST, by(CONCURRENCY, -1.1)), (FIRST,),
    ),
    Invariant(
        "latency does not fall with concurrency", "serving", not_below(END, CONCURRENCY),
        scaled(END, by(CONCURRENCY, -1.1)), (END,),
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
    Invariant(
        "no more requests than the capacity", "serving", at_most(RATE, CAPACITY),
        scaled(RATE, lambda _: 1.5), (RATE, CAPACITY),
    ),
    Invariant(
        "TTFT does not fall with the prompt", "serving", longer_prompt,
        scaled(FIRST, by(PROMPT, -3)), (FIRST,),
    ),
    Invariant(
        "latency does not fall with the output", "serving", longer_output,
        scaled(END, by(OUTPUT, -3)), (END, "serving.decode.time", "serving.mixed.time", "serving.chunk"),
    ),
    Invariant(
        "a saturated server completes what it can", "serving", saturated,
        scaled(RATE, lambda draw: 0.9 if draw.given(CONCURRENCY) > 1e6 else 1.0), (RATE, CAPACITY),
    ),
    Invariant(
        "a decode step does not get faster with the context", "serving", longer_context,
        scaled("serving.decode.time", by(PROMPT, -1)), ("serving.decode.time",),
    ),
    Invariant(
        "more memory holds no fewer requests", "serving", not_below("serving.requests_that_fit", MEMORY),
        scaled("serving.requests_that_fit", by(MEMORY, -9)), ("serving.requests_that_fit",),
    ),
    Invariant(
        "a decode step does not slow down with memory bandwidth", "serving", not_above("serving.decode.time", PIN_RATE),
        scaled("serving.decode.time", by(PIN_RATE)), ("serving.decode.time",),
    ),
    Invariant(
        "requests that fit fill the memory that is left", "serving", cache_sum,
        scaled("serving.requests_that_fit", lambda _: 1.01),
        ("serving.requests_that_fit", "serving.kv.request_memory", "serving.cache_memory",
         "serving.instance_gpus"),
    ),
    Invariant(
        "output of a batch is no faster than its floor", "serving", output_floor,
        scaled("serving.throughput", lambda _: 1e4),
        ("serving.throughput", "serving.batch", "serving.decode.floor_time"),
    ),
    Invariant(
        "goodput is at most the rate", "serving", at_most("serving.goodput", RATE),
        scaled("serving.goodput", lambda _: 1e9), ("serving.goodput", RATE),
    ),
)  # fmt: skip
