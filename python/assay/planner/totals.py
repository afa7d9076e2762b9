"""Totals of a step: time, rate, first token, power, energy and cost, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from assay.errors import MissingInputsError
from assay.intervals import Interval, certain
from assay.planner import evaluation as e
from assay.planner.prices import cooled, rented
from assay.planner.specs import BatchConfig, HardwareSpec

NANOSECONDS: Final = 1e9
_TIME, _RATE = f"{e.STEP}wall_time", f"{e.STEP}tokens_per_second"
_FIRST_TOKEN = f"{e.STEP}time_to_first_token"
_INTERVALS: Final = (_TIME, _RATE, _FIRST_TOKEN)

Values = Mapping[str, float]


def first_token_batch(batch: BatchConfig, budget: float) -> BatchConfig:
    """The step that a new request of this context waits for: a chunk of its prompt."""
    if batch.prefill_tokens:
        return batch
    # How the prompt of a split context is computed is not known; TTFT is left out.
    batch = replace(batch, context_parallel=1)
    prompt = max(round(e.mean_context(batch)), 1)
    chunk = int(min(prompt, max(budget - batch.sequences, 1)))
    return replace(batch, prefill_tokens=chunk, prompt=prompt)


def whole_step(
    given: Values,
    first_token_given: Values,
    values: Values,
    first_token: Values,
    hardware: HardwareSpec,
    batch: BatchConfig,
) -> tuple[dict[str, Interval], dict[str, str], list[str]]:
    """Figures of the step, reasons for those that are missing, and what was assumed for them."""
    spread = e.spreads(given, hardware, batch.engine, _INTERVALS)
    step, floor = values[_TIME], values[f"{e.STEP}floor_time"]
    time = Interval(step, *spread[_TIME].ends(step, floor))
    wait = first_token[_FIRST_TOKEN]
    later = e.spreads(first_token_given, hardware, batch.engine, _INTERVALS)
    totals = {
        "step": time.scaled(NANOSECONDS),
        "floor": certain(floor * NANOSECONDS),
        "ttft": Interval(wait, *later[_FIRST_TOKEN].ends(wait)).scaled(NANOSECONDS),
        "bytes": certain(values[f"{e.STEP}size"]),
    }
    missing: dict[str, str] = {}
    if batch.context_parallel > 1:
        del totals["ttft"]
        missing["ttft"] = "prefill of context-parallel GPUs is not predicted"
    notes = _power(given, hardware, time, totals, missing)
    if reason := _no_rate(batch):
        totals.pop("joules_per_token", None)
        per_token = ("tokens_per_second", "joules_per_token", "dollars_per_token")
        return totals, missing | dict.fromkeys(per_token, reason), notes
    rate = values[_RATE]
    least, most = spread[_RATE].ends(rate)
    ceiling = rate * step / floor if floor else math.inf
    totals["tokens_per_second"] = Interval(rate, least, min(most, ceiling))
    notes += _cost(given, hardware, time, totals, missing)
    return totals, missing, notes


def _no_rate(batch: BatchConfig) -> str:
    """Why no tokens per second can be said."""
    if not batch.sequences:
        return "no sequence decodes in this step"
    if batch.speculative_tokens and batch.acceptance is None:
        return "the probability that a speculated token is accepted is not given"
    return ""


def _power(
    given: Values, hardware: HardwareSpec, time: Interval, totals: dict[str, Interval],
    missing: dict[str, str],
) -> list[str]:  # fmt: skip
    """Power and clock of a GPU in the step, and energy per token, where its power is modeled."""
    cooling, note = cooled(hardware)
    try:
        outputs = e.evaluate([{**given, **cooling}], e.POWERED, e.POWER_VARIANTS)[0]
    except MissingInputsError as error:
        missing |= dict.fromkeys(("power", "sm_clock", "joules_per_token"), e.missing_names(error))
        return []
    energy, power, throttle, clock = (outputs[name] for name in e.POWERED)
    totals["power"] = certain(power)
    totals["sm_clock"] = certain(throttle * clock)
    totals["joules_per_token"] = _following(energy, time)
    return [note] if note else []


def _cost(
    given: Values, hardware: HardwareSpec, time: Interval, totals: dict[str, Interval],
    missing: dict[str, str],
) -> list[str]:  # fmt: skip
    """Rent per token, where a rent is known."""
    rent, note = rented(hardware)
    try:
        outputs = e.evaluate([{**given, **rent}], e.PRICED)[0]
    except MissingInputsError as error:
        missing["dollars_per_token"] = e.missing_names(error)
        return []
    totals["dollars_per_token"] = _following(outputs[e.PRICED[0]], time)
    return [note] if note else []


def _following(value: float, time: Interval) -> Interval:
    """A total in proportion to the time of the step; errors of its own are not in the interval."""
    return Interval(value, value * time.lo / time.value, value * time.hi / time.value)
