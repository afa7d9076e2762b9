"""How many requests per second GPUs serve: within a service level, as `assay plan --rate max` says it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount
from assay.asking.case import GPUS_OF_A_NODE
from assay.asking.cases import gpus_of, serving_case, unsaid_lengths
from assay.asking.outcome import Outcome
from assay.asking.periods import PERIODS, SECONDS_OF
from assay.asking.predictions import PlanMost
from assay.asking.reading import Reading
from assay.asking.replicas import OF_TRAFFIC, TENSORS, servers_of, unsaid_plan
from assay.asking.serving import MOST_AT_ONCE, SATURATED, misfit, refuse_misfit
from assay.asking.splitting import FEWEST, ONE_INSTANCE
from assay.asking.spreading import of_each, spread
from assay.errors import AssayError, EvaluationError, InfeasibleError, InputError
from assay.plurals import count

_LIKELY: Final = 0.5
"""The risk at the likely step times: as often above them as below."""
_SATURATED: Final = re.compile(r"\bsaturat")


def capacity(reading: Reading) -> Outcome:
    """Requests per second that the GPUs serve within a service level; saturated where that is asked for."""
    limited = reading.slots & {"ttft_limit", "tpot_limit"}
    asked = _SATURATED.search(reading.rest) and not limited
    outcome = _saturated(reading) if asked else _within_limits(reading)
    period = next((name for name in ("minute", "hour") if name in reading.words()), "")
    if not (period or "per_time" in reading.slots):
        return outcome
    seconds = SECONDS_OF[period] if period else SECONDS_OF["day"] * reading.get("per_time")
    each = period or PERIODS[reading.get("per_time")]
    rate = outcome.number[0] or math.nan
    return replace(outcome, text=f"{seconds * rate:,.0f} requests per {each}: {outcome.text}")


def _within_limits(reading: Reading) -> Outcome:
    """The planner's rate, of replicas of the tensor ranks that serve the most together."""
    empty = reading.with_values(dict.fromkeys((*OF_TRAFFIC, "gpus", "nodes")))
    case = serving_case(empty, lone=True)
    gpus = gpus_of(reading) or math.prod(case.layout)
    if gpus < math.prod(case.layout) and (problem := misfit(reading)) is not None:
        raise problem
    best: PlanMost | None = None
    most = 0.0
    refusal: AssayError = InputError(
        f"{count(gpus, 'GPU')}: no replica of up to {GPUS_OF_A_NODE} of them holds the model",
        "a smaller format of weights, or GPUs with more memory",
    )
    given = reading.get("tensor")
    for tensor in [int(given)] if given else TENSORS:
        if tensor < case.layout[0] or tensor > min(gpus, GPUS_OF_A_NODE):
            continue
        command = PlanMost(servers_of(reading, tensor), gpus=gpus)
        try:
            rate = command.most()
        except (InfeasibleError, EvaluationError) as error:
            refusal = error
            continue
        if rate <= most:
            # Wider replicas serve less together, still wider ones do not serve more.
            break
        best, most = command, rate
    if best is None:
        raise refusal
    result = best.run()
    tensor = best.servers.tensor
    replicas = f"{count(gpus // tensor, 'replica')} of {count(tensor, 'GPU')}"
    text = (
        f"{result.text} within the limits: {replicas}; 10 % risk that they are missed "
        f"({best.most(risk=_LIKELY):.3g} at the likely step times)"
    )
    said = [line for line in case.assumed if FEWEST not in line and ONE_INSTANCE not in line]
    return Outcome(text, result, assumed=(*unsaid_plan(reading), *said))


def _saturated(reading: Reading) -> Outcome:
    """Requests per second while there are always more of them, whatever the latency."""
    of_one = spread(reading.with_values({"concurrency": MOST_AT_ONCE}), shares=False)
    case = serving_case(of_one.reading)
    result = case.resolve("serving.request_rate").run()
    refuse_misfit(reading, result)
    assumed = (*unsaid_lengths(reading), SATURATED, *of_one.said, *of_each(of_one, case.assumed))
    outcome = Outcome(f"{result.meaning}: {result.text}", result, assumed=assumed)
    if of_one.replicas == 1:
        return outcome
    whole = of_one.replicas * (result.value or math.nan)
    text = f"{amount(whole, result.unit)}: {of_one.replicas:,} replicas, each with {result.text}"
    return replace(outcome, text=text, value=whole, unit=result.unit, scales=True)
