"""Answers about a run by its size: tokens that suit a model or a budget, time of so many operations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.cases import accelerator_of, gpus_of, offer_of, training_case
from assay.asking.commands import Solve
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
