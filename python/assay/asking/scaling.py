"""Answers about a run by its size: tokens that suit a model or a budget, time of so many operations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.case import Case
from assay.asking.cases import accelerator_of, gpus_of, offer_of, training_case
from assay.asking.commands import Solve
from assay.asking.facts import peak
from assay.asking.outcome import Outcome
from assay.asking.periods import SECONDS_OF
from assay.asking.reading import Reading
from assay.asking.training import SOME, throughput, tokens_text
from assay.catalog import offers
from assay.errors import InputError
from assay.plurals import count

_LAW: Final = "scaling_laws/besiroglu_2024"


def optimal_tokens(reading: Reading) -> Outcome:
    """Tokens of a run for whose compute a model has the best size."""
    case = training_case(reading).with_entries(_LAW)
    size = case.value("architecture.parameters") or math.nan
    command = Solve(
        "training.total_tokens", f"scaling.optimum.size={size:.10g}", case.preset, case.includes, case.assign,
    )  # fmt: skip
    result = command.run()
    tokens = result.value or math.nan
    text = (
        f"{tokens_text(float(f'{tokens:.3g}'))} tokens, {tokens / size:.3g} for each of {size:.4g} weights: "
        "those of the least loss for their compute"
    )
    names = [line for line in case.assumed if not line.startswith("accelerator")]
    assumed = (*names, "the law of Hoffmann et al. 2022 as Besiroglu et al. 2024 fit it")
    return Outcome(text, result, assumed=assumed)


def compute_time(reading: Reading) -> Outcome:
    """How long GPUs take for so many operations at a share of their peak."""
    operations, share = float(reading.get("flop_count")), float(reading.get("mfu_share"))
    gpus = gpus_of(reading) or 1
    kept = reading.with_values(dict.fromkeys(("flop_count", "mfu_share", "gpus", "nodes")))
    result = training_case(kept).resolve("gpu.peak_flops", intervals=False).run()
    rate = gpus * share * 1e12 * (result.value or math.nan)
    days = operations / rate / SECONDS_OF["day"]
    text = (
        f"{rounded(days)} days: {operations:.3g} FLOP on {count(gpus, 'GPU')} of "
        f"{accelerator_of(reading, 'training')} at {share:.0%} of {result.text}"
    )
    return Outcome(text, result, assumed=("dense, in 16 bits",), value=days, unit="day")


def reached_mfu(reading: Reading) -> Outcome:
    """MFU of a speed that was reached on each GPU: its tokens by their FLOPs, over the dense peak.

    Attention is counted as PaLM's authors do, without a mask; others leave it out.
    """
    if (gpus_of(reading) or 1) > 1 and "achieved_flops" in reading.slots:
        raise InputError("a rate of one GPU or of all of them?", "say that of one: on an H100")
    accelerator = accelerator_of(reading, "training")
    top = peak(
        reading.with_values(
            {"accelerator": accelerator, "gpus": None, "nodes": None, "model": None}
        )
    )
    most = 1e12 * (top.number[0] or math.nan)
    said = [] if "accelerator" in reading.slots else [f"accelerator {accelerator}"]
    said.append("dense" if "format" in reading.slots else "dense, in 16 bits")
    commands, rate = top.commands or (top.result.command,), reading.get("achieved_flops")
    beside = ""
    if rate is None:
        if "model" not in reading.slots:
            raise InputError("tokens of which model?", "name it: an 8B")
        each = token_flops(reading)
        rate = reading.get("trained_speed") * (each.result.value or math.nan)
        said += each.assumed
        run = each.result.command
        case = Case(run.preset, run.includes, run.assign)
        attention = 3 * (case.value("architecture.attention.flops_per_token") or 0.0)
        bare = rate - reading.get("trained_speed") * attention
        beside = f"; {bare / most:.1%} without attention"
        commands = (*commands, *each.commands)
    share = rate / most
    if share > 1:
        raise InputError(
            f"no {accelerator} reaches that: {rounded(rate / 1e12)} TFLOP/s are more than its peak of "
            f"{rounded(most / 1e12)}"
        )
    text = f"{share:.1%} MFU: {rounded(rate / 1e12)} of {rounded(most / 1e12)} TFLOP/s of each {accelerator}{beside}"
    return Outcome(text, top.result, commands, tuple(said), value=100 * share, unit="%")


def token_flops(reading: Reading) -> Outcome:
    """FLOPs of a token: forward, and with the backward pass of training."""
    kept = reading.with_values(
        {slot: None for slot in reading.slots if slot not in ("model", "context")}
    )
    case = training_case(kept)
    names = (f"architecture.{kind}.flops_per_token" for kind in ("training", "forward"))
    trained, forward = (case.resolve(name, intervals=False).run() for name in names)
    sequence = case.value("architecture.sequence") or math.nan
    text = f"{trained.text} in training, forward and backward; {forward.text} forward alone"
    assumed = [line for line in case.assumed if not line.startswith("accelerator")]
    assumed.append(f"sequences of {sequence:,.0f} tokens, with all of their attention")
    return Outcome(text, trained, (trained.command, forward.command), tuple(assumed))


def budget_tokens(reading: Reading) -> Outcome:
    """Tokens that a budget trains on, at a rent of GPUs."""
    budget = float(reading.get("budget"))
    accelerator = accelerator_of(reading, "training")
    price, offer = reading.get("rent"), offer_of(reading, "training")
    said: tuple[str, ...] = ()
    if price is None:
        known = {kind.name: kind for kind in offers.offers(accelerator)}
        usual = known.get(offer) or known.get(f"{offer}:on-demand") or offers.usual(accelerator)
        if usual is None:
            raise InputError(
                f"the catalog has no rent of {accelerator}", "say it: at $2 per GPU-hour"
            )
        price, said = usual.usd_per_hour, (f"rented at {usual.text}",)
    paid = dict.fromkeys(("budget", "rent", "offer", "provider", "finance"))
    gpus = gpus_of(reading) or SOME
    if gpus_of(reading) is None:
        said = (*said, f"{SOME} GPUs")
    outcome = throughput(reading.with_values({**paid, "gpus": gpus, "nodes": None}))
    hours = budget / (gpus * float(price))
    whole = hours * 3600 * (outcome.result.value or math.nan)
    text = (
        f"{tokens_text(float(f'{whole:.3g}'))} tokens: {budget / float(price):,.0f} GPU-hours at ${price:.4g}, "
        f"{hours / 24:,.3g} days on {gpus:,} GPUs, without interruptions: {outcome.text}"
    )
    assumed = tuple(
        line for line in outcome.assumed if not line.endswith(" tokens") or "sequences" in line
    )
    return replace(
        outcome, text=text, value=whole, unit="token", scales=True, assumed=(*said, *assumed)
    )
