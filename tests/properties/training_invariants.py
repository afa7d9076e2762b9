"""What holds for a training job of any layout: sums of memory, order, floors."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from property_harness import SLACK, Answers, Bug, Draw, Invariant, Violation, graph_given

STEP, RATE = "training.step_time", "training.tokens_per_second"
TIME, DURATION = "training.time_to_train", "econ.run.duration"
TOTAL = "parallelism.memory.total"
EXPOSED = "training.exposed_communication_time"
PINS = "hbm.pin_rate"
CLOCK = "kernels.device.clock_ratio"
COMPUTE, STRAGGLING = "training.compute_time", "training.straggling"
MOST_GPUS = 131_072
CONVERGED = 1e-6
"""The clock under a limit is the solution of equations, found to so many digits."""
MEMORY = tuple(
    f"parallelism.memory.{part}"
    for part in (
        "total", "states", "workspace", "activations", "logits", "weights", "gradients",
        "optimizer",
    )
)  # fmt: skip

Check = Callable[[Draw, Answers], Violation | None]


def scaled(name: str, factor: Callable[[Draw], float]) -> Bug:
    return lambda draw, what, number: number * factor(draw) if what == name else number


def differs(draw: Draw, what: str, said: float, expected: float, tolerance: float = 1e-6) -> (
    Violation | None
):  # fmt: skip
    if math.isclose(said, expected, rel_tol=tolerance):
        return None
    return Violation(f"{what}: expected {expected:.9g}, got {said:.9g}", what, (draw,))


def memory_sums(draw: Draw, answers: Answers) -> Violation | None:
    """Memory is the sum of its parts, on the fuller of the first and last stage."""
    part = {name.rpartition(".")[2]: answers.value(draw, name) for name in MEMORY}
    states = part["weights"] + part["gradients"] + part["optimizer"]
    flight = answers.value(draw, "parallelism.in_flight")
    used = max(part["activations"], part["activations"] / flight + part["logits"])
    return differs(draw, TOTAL, part["total"], states + part["workspace"] + used)


def interruptions(draw: Draw, answers: Answers) -> Violation | None:
    """A run is never done before its steps are."""
    steps, whole = answers.value(draw, TIME), answers.value(draw, DURATION)
    if whole >= steps * (1 - SLACK):
        return None
    return Violation(f"{DURATION} {whole:.6g} s, {TIME} {steps:.6g} s", DURATION, (draw,))


def utilization(draw: Draw, answers: Answers) -> Violation | None:
    """No job computes faster than the data sheet, at the highest clock of the chip."""
    share = answers.value(draw, "training.mfu")
    given = graph_given(draw)
    most = given.get("gpu.reference.top_clock", 1.0) / given.get("gpu.clock", 1.0)
    if share <= max(most, 1.0) * (1 + SLACK):
        return None
    return Violation(f"MFU of {share:.3f}, clock of at most {most:g}", "training.mfu", (draw,))


def in_proportion(name: str, change: str, factor: float) -> Check:
    """A figure that grows as a value does."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        more = draw.changed({change: factor * draw.given(change)})
        before, after = answers.value(draw, name), answers.value(more, name)
        return differs(more, name, after, factor * before)

    return check


def weak_scaling(draw: Draw, answers: Answers) -> Violation | None:
    """Twice the GPUs on twice the batch do not train slower, where computation takes most of the time.

    Where replicas of a stage spread from one node to two, or latency rules, they may. GPUs that are no
    whole number of replicas are a layout that `--constraints` refuses.
    """
    gpus, batch = draw.given("training.gpus"), draw.given("training.batch")
    stage = gpus / draw.given("parallelism.pipeline")
    tensor = draw.given("parallelism.tensor")
    # A single replica has no gradients to reduce; its twin is the first that has.
    if stage % tensor or stage < 2 * tensor:
        return None
    if stage < 2 * draw.given("interconnect.node_ranks") or gpus > 65_536:
        return None
    if answers.value(draw, EXPOSED) > answers.value(draw, STEP) / 2:
        return None
    more = draw.changed({"training.gpus": 2 * gpus, "training.batch": 2 * batch})
    before, after = answers.value(draw, RATE), answers.value(more, RATE)
    if after >= before * (1 - SLACK):
        return None
    return Violation(f"{RATE} fell from {before:.6g} to {after:.6g}", RATE, (draw, more))


def sharding(draw: Draw, answers: Answers) -> Violation | None:
    """Each stage of ZeRO keeps no more states on a GPU than the one before."""
    states = "parallelism.memory.states"
    kept = [
        answers.value(draw.changed({"parallelism.zero_stage": float(stage)}), states)
        for stage in range(4)
    ]
    if all(later <= earlier * (1 + SLACK) for earlier, later in pairwise(kept)):
        return None
    return Violation(f"states by ZeRO stage: {kept}", states, (draw,))


def bandwidth(draw: Draw, answers: Answers) -> Violation | None:
    """Faster memory makes no step slower."""
    name = next(name for name in (PINS, "gpu.memory.bandwidth") if name in graph_given(draw))
    faster = draw.changed({name: 1.5 * draw.given(name)})
    before, after = answers.value(draw, STEP), answers.value(faster, STEP)
    if after <= before * (1 + SLACK):
        return None
    return Violation(f"{STEP} rose from {before:.6g} to {after:.6g}", STEP, (draw, faster))


def strong_scaling(draw: Draw, answers: Answers) -> Violation | None:
    """Twice the GPUs on the same batch are at most twice as fast, at the same clock.

    Half of the passes of every replica are left, and nothing else gets less: the slowest of more GPUs is
    slower, collectives have more members, and the pipeline fills as often.
    """
    gpus, passes = draw.given("training.gpus"), answers.value(draw, "parallelism.micro_batches")
    if passes % 2 or gpus > MOST_GPUS / 2:
        return None
    fixed = draw.changed({CLOCK: 1.0})
    more = fixed.changed({"training.gpus": 2 * gpus})
    before, after = answers.value(fixed, STEP), answers.value(more, STEP)
    if after >= before / 2 * (1 - SLACK):
        return None
    return Violation(f"{STEP} fell from {before:.6g} to {after:.6g}", STEP, (fixed, more))


def shared_work(draw: Draw, answers: Answers) -> Violation | None:
    """Twice the GPUs on the same batch compute no longer, but for the slowest of them."""
    gpus, passes = draw.given("training.gpus"), answers.value(draw, "parallelism.micro_batches")
    if passes % 2 or gpus > MOST_GPUS / 2:
        return None
    fixed = draw.changed({CLOCK: 1.0})
    more = fixed.changed({"training.gpus": 2 * gpus})
    before, after = (
        answers.value(each, COMPUTE) / answers.value(each, STRAGGLING) for each in (fixed, more)
    )
    if after <= before * (1 + SLACK):
        return None
    text = f"{COMPUTE} rose from {before:.6g} to {after:.6g}, of a GPU of median speed"
    return Violation(text, COMPUTE, (fixed, more))


def more_power(draw: Draw, answers: Answers) -> Violation | None:
    """A higher power limit makes no step slower."""
    if "gpu.power.limit" not in graph_given(draw):
        return None
    more = draw.changed({"gpu.power.limit": 1.2 * draw.given("gpu.power.limit")})
    before, after = answers.value(draw, STEP), answers.value(more, STEP)
    if after <= before * (1 + CONVERGED):
        return None
    return Violation(f"{STEP} rose from {before:.6g} to {after:.6g}", STEP, (draw, more))


INVARIANTS = (
    Invariant(
        "memory of a GPU is the sum of its parts", "training", memory_sums,
        scaled(TOTAL, lambda _: 1.01), (*MEMORY, "parallelism.in_flight"),
    ),
    Invariant(
        "a run is not done before its steps", "training", interruptions,
        scaled(DURATION, lambda _: 0.3), (TIME, DURATION),
    ),
    Invariant(
        "no job is above its peak", "training", utilization,
        scaled("training.mfu", lambda _: 5.0), ("training.mfu",),
    ),
    Invariant(
        "twice the tokens take twice the time", "training",
        in_proportion(TIME, "training.total_tokens", 2.0),
        scaled(TIME, lambda draw: draw.given("training.total_tokens") ** 0.01), (TIME,),
    ),
    Invariant(
        "twice the GPUs on twice the batch are not slower", "training", weak_scaling,
        scaled(RATE, lambda draw: draw.given("training.gpus") ** -1.1), (RATE, STEP, EXPOSED), every=2,
    ),
    Invariant(
        "ZeRO keeps no more with each stage", "training", sharding,
        scaled("parallelism.memory.states", lambda draw: 1 + draw.given("parallelism.zero_stage")),
        ("parallelism.memory.states",), every=2,
    ),
    Invariant(
        "faster memory makes no step slower", "training", bandwidth,
        scaled(STEP, lambda draw: graph_given(draw).get(PINS, 1e9) ** 2 / 1e20), (STEP,),
    ),
    Invariant(
        "twice the GPUs are at most twice as fast", "training", strong_scaling,
        scaled(STEP, lambda draw: draw.given("training.gpus") ** -1.5), (STEP, "parallelism.micro_batches"),
    ),
    Invariant(
        "twice the GPUs compute no longer", "training", shared_work,
        scaled(COMPUTE, lambda draw: draw.given("training.gpus")),
        (COMPUTE, STRAGGLING, "parallelism.micro_batches"),
    ),
    Invariant(
        "more power makes no step slower", "training", more_power,
        scaled(STEP, lambda draw: graph_given(draw).get("gpu.power.limit", 1.0) ** 3), (STEP,),
    ),
)  # fmt: skip
