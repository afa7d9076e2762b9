"""Figures of a whole step: time, rate, first token, power, energy and cost, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from assay.errors import MissingInputsError
from assay.planner import evaluation as e
from assay.planner.graph import Figure
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
) -> tuple[dict[str, Figure], dict[str, str], list[str]]:
    """Figures of the step, reasons for those that are missing, and what was assumed for them."""
    spread = e.spreads(given, hardware, batch.engine, _INTERVALS)
    step, floor = values[_TIME], values[f"{e.STEP}floor_time"]
    time = Figure(step, *spread[_TIME].ends(step, floor), "s")
    wait = first_token[_FIRST_TOKEN]
    later = e.spreads(first_token_given, hardware, batch.engine, _INTERVALS)
    totals = {
        "step": _in_nanoseconds(time),
        "floor": _certain(floor * NANOSECONDS, "ns"),
        "ttft": _in_nanoseconds(Figure(wait, *later[_FIRST_TOKEN].ends(wait), "s")),
        "bytes": _certain(values[f"{e.STEP}size"], "byte"),
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
    totals["tokens_per_second"] = Figure(rate, least, min(most, ceiling), "token/s")
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
    given: Values, hardware: HardwareSpec, time: Figure, totals: dict[str, Figure],
    missing: dict[str, str],
) -> list[str]:  # fmt: skip
    """Power and clock of a GPU in the step, and energy per token, where its power is modeled."""
    cooling, note = cooled(hardware)
    try:
        found = e.evaluate([{**given, **cooling}], e.POWERED, e.POWER_VARIANTS)[0]
    except MissingInputsError as error:
        missing |= dict.fromkeys(("power", "sm_clock", "joules_per_token"), e.missing_names(error))
        return []
    energy, power, throttle, clock = (found[name] for name in e.POWERED)
    totals["power"] = _certain(power, "W")
    totals["sm_clock"] = _certain(throttle * clock, "Hz")
    totals["joules_per_token"] = _following(energy, time, "J/token")
    return [note] if note else []


def _cost(
    given: Values, hardware: HardwareSpec, time: Figure, totals: dict[str, Figure],
    missing: dict[str, str],
) -> list[str]:  # fmt: skip
    """Rent per token, where a rent is known."""
    rent, note = rented(hardware)
    try:
        found = e.evaluate([{**given, **rent}], e.PRICED)[0]
    except MissingInputsError as error:
        missing["dollars_per_token"] = e.missing_names(error)
        return []
    totals["dollars_per_token"] = _following(found[e.PRICED[0]], time, "USD/token")
    return [note] if note else []


def _certain(value: float, unit: str) -> Figure:
    return Figure(value, value, value, unit)


def _in_nanoseconds(time: Figure) -> Figure:
    return Figure(time.expected * NANOSECONDS, time.lo * NANOSECONDS, time.hi * NANOSECONDS, "ns")


def _following(value: float, time: Figure, unit: str) -> Figure:
    """A figure in proportion to the time of the step; errors of its own are not in the interval."""
    return Figure(value, value * time.lo / time.expected, value * time.hi / time.expected, unit)
