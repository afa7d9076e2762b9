"""Answers about training: time, GPUs, cost, energy, failures and checkpoints of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from assay.asking import published_runs
from assay.asking.amounts import rounded
from assay.asking.case import GPUS_OF_A_NODE, Case
from assay.asking.cases import (
    accelerator_of,
    assumptions,
    gpus_of,
    model_of,
    offer_of,
    require_place,
    training_case,
    with_node_as_gpus,
)
from assay.asking.commands import SERVING, Estimate
from assay.asking.outcome import Outcome
from assay.asking.periods import SECONDS_OF
from assay.asking.reading import Reading
from assay.asking.run_memory import leanest, misfit
from assay.asking.storage import all_states
from assay.catalog import entries, models
from assay.errors import InfeasibleError, InputError
from assay.plurals import count

PLACE: Final = "us_virginia"
TOKENS: Final = 15e12
"""Tokens of a run that a question does not say: what models of today are trained on."""
_OPTIONS: Final = {
    "electricity_price": "electricity", "pue": "pue", "gpu_price": "price", "rent": "rent",
    "tuning": "method",
}  # fmt: skip
"""Options of `assay estimate` by the slots that give them."""
_FORMATS: Final = {"nvfp4": "fp4", "mxfp4": "fp4", "f16": "bf16"}
_SHORT_SEQUENCE: Final = 2048
"""Tokens of a sequence that is tried where a run does not fit: as models were fine-tuned before 8k."""
SOME: Final = 64
"""GPUs of a run whose figure is wanted for each of them."""
_OF_GPUS: Final = re.compile(r"\bgpu (?:failures?|faults?|crash(?:es)?|errors?)\b")
_DAYS_OF_A_YEAR: Final = 365.0
_SUFFIXES: Final = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


class MissingError(InputError):
    """A figure that needs inputs which the catalog does not have."""

    def __init__(self, target: str, missing: Sequence[str]) -> None:
        """The figure, and the inputs that it lacks."""
        super().__init__(f"{target} needs more inputs: {', '.join(missing[:4])}")
        self.missing = list(missing)


def tokens_text(tokens: float) -> str:
    """A number of tokens as `assay estimate` takes it.

    >>> tokens_text(15.6e12), tokens_text(3e8)
    ('15.6T', '300M')
    """
    for size, suffix in _SUFFIXES:
        if tokens >= size:
            return f"{tokens / size:.10g}{suffix}"
    return f"{tokens:.10g}"


def _estimate(
    reading: Reading, target: str, needs: str = "", *, counts_tokens: bool = True
) -> Outcome:
    """A figure of a training run, of shorter sequences where it does not fit at their usual length."""
    try:
        return _run(reading, target, needs, counts_tokens)
    except InfeasibleError as error:
        if gpus_of(reading) is None or "memory" not in error.message:
            raise
        if "context" in reading.slots:
            raise misfit(reading, error) from None
    longest = models.find(model_of(reading, "training")).context or _SHORT_SEQUENCE
    sequence = min(_SHORT_SEQUENCE, longest)
    shorter = reading.with_values({"context": sequence})
    try:
        outcome = _run(shorter, target, needs, counts_tokens)
    except InfeasibleError as error:
        raise misfit(shorter, error) from None
    said = f"sequences of {sequence:,} tokens: longer ones do not fit"
    return replace(outcome, assumed=(*outcome.assumed, said))


def _run(reading: Reading, target: str, needs: str, counts_tokens: bool) -> Outcome:
    """A figure of a training run."""
    assumed = list(assumptions(reading, "training"))
    place, tokens = reading.get("place", PLACE), reading.get("tokens")
    if "place" not in reading.slots:
        assumed.append(f"in {PLACE}")
    elif needs:
        require_place(reading, needs)
    grid: tuple[str, ...] = ()
    if place not in entries.names("tariffs") and place in entries.names("grids"):
        # Nothing but the grid differs, for no cost is asked for.
        grid = _values_of_grid(place)
        place = PLACE
    if tokens is not None and (epochs := reading.get("epochs")) is not None:
        tokens *= epochs
        assumed.append(f"{tokens_text(tokens)} tokens in {epochs:g} epochs")
    if tokens is None and counts_tokens:
        raise InputError("a run of how many tokens?", 'say so: "... on 15T tokens"')
    if tokens is None:
        tokens = TOKENS
        assumed.append(f"{tokens_text(tokens)} tokens")
    options: dict[str, Any] = {
        option: reading.get(slot) for slot, option in _OPTIONS.items() if slot in reading.slots
    }
    if (name := reading.get("format")) is not None:
        options["format"] = _FORMATS.get(name, name)
    if offer := offer_of(reading, "training"):
        options["offer"] = offer
    gpus = gpus_of(reading)
    if gpus is not None and "days" in reading.slots:
        raise InputError("GPUs and days are given: one follows from the other", "leave one out")
    if gpus is not None:
        options["gpus"] = gpus
    elif (days := reading.get("days")) is not None:
        options["days"] = float(days)
    sequence = reading.get("context")
    assign = grid if sequence is None else (*grid, f"architecture.sequence={sequence} token")
    if assign:
        options["assign"] = assign
    command = Estimate(
        target, model_of(reading, "training"), accelerator_of(reading, "training"),
        tokens_text(tokens), place, tuple(options.items()),
    )  # fmt: skip
    result = command.run()
    if result.value is None:
        raise MissingError(target, result.missing)
    assumed += [line for line in result.assumed if sequence is None or "sequences" not in line]
    return Outcome(
        f"{result.meaning}: {result.text}",
        result,
        assumed=tuple(assumed),
        notes=tuple(result.notes),
    )


def _values_of_grid(place: str) -> tuple[str, ...]:
    """What a grid is of itself, as `--set` takes it: contracts are of who buys from it."""
    values = entries.read("grids", place).values
    return tuple(
        f"{name}={value.text}" for name, value in values.items() if name.startswith("carbon.grid.")
    )


def _beside_published(reading: Reading, outcome: Outcome) -> Outcome:
    """The answer, and what published runs like it reached."""
    gpus, sequence = gpus_of(reading), reading.get("context")
    if gpus is None or reading.get("format") not in (None, "bf16") or "tuning" in reading.slots:
        return outcome
    names = model_of(reading, "training"), accelerator_of(reading, "training")
    runs = published_runs.near(*names, gpus, sequence)
    return replace(outcome, notes=(*outcome.notes, *runs))


def duration(reading: Reading) -> Outcome:
    """How long a run takes on the GPUs of the question."""
    return _beside_published(reading, _estimate(reading, "econ.run.duration"))


def in_time(reading: Reading) -> Outcome:
    """Whether the GPUs of the question do the run in its days."""
    days = float(reading.get("days"))
    outcome = duration(reading.with_values({"days": None}))
    verdict = "yes" if (outcome.result.value or math.inf) <= days else "no"
    return replace(outcome, text=f"{verdict}: {outcome.text}, {days:g} asked for", verdict=verdict)


def gpus(reading: Reading) -> Outcome:
    """The fewest GPUs that finish in time."""
    outcome = _estimate(reading, "training.gpus")
    number = outcome.result.value or math.nan
    nodes = math.ceil(number / 8)
    asked = "node" in reading.rest
    text = f"{number:,.0f} GPUs, {nodes:,} nodes of 8"
    if asked:
        return replace(outcome, text=text, value=nodes, unit="node")
    return _beside_published(
        reading.with_values({"gpus": round(number)}), replace(outcome, text=text)
    )


def gpu_hours(reading: Reading) -> Outcome:
    """GPU-hours of a run."""
    return _beside_published(reading, _estimate(reading, "training.gpu_hours"))


def cost(reading: Reading) -> Outcome:
    """Cost of a run."""
    outcome = _estimate(reading, "econ.run.total_cost", "tariffs")
    if reading.slots & {"rent", "offer", "provider", "finance"}:
        return outcome
    return replace(outcome, assumed=("owned GPUs", *outcome.assumed))


def electricity(reading: Reading) -> Outcome:
    """Cost of the electricity of a run."""
    return _estimate(reading, "econ.run.power_cost", "tariffs")


def fits(reading: Reading) -> Outcome:
    """Whether a run fits on the GPUs of the question, in the best layout."""
    if "format" in reading.slots:
        raise InputError("memory of a run in another format", "leave the format out")
    if gpus_of(reading) is None:
        reading = reading.with_values({"gpus": 1})
    assumed = (*assumptions(reading, "training"), count(gpus_of(reading) or 1, "GPU"))
    try:
        outcome = memory(reading)
    except InfeasibleError as error:
        if "context" not in reading.slots:
            reading = reading.with_values({"context": _SHORT_SEQUENCE})
            assumed += (f"sequences of {_SHORT_SEQUENCE:,} tokens, as of longer ones",)
        names = model_of(reading, "training"), accelerator_of(reading, "training")
        options: dict[str, Any] = {"gpus": gpus_of(reading), "method": reading.get("tuning")}
        options["assign"] = (f"architecture.sequence={reading.get('context')} token",)
        given = tuple((name, value) for name, value in options.items() if value is not None)
        command = Estimate("parallelism.memory.total", *names, tokens_text(TOKENS), PLACE, given)
        result = leanest(reading).resolve("parallelism.memory.total", intervals=False).run()
        return Outcome(f"no: {error.message}", result, (command,), assumed, verdict="no")
    lengths = [line for line in outcome.assumed if line.startswith("sequences")]
    return replace(
        outcome,
        text=f"yes: {outcome.text}",
        assumed=(*assumed, *lengths[-1:]),
        verdict="yes",
        notes=(),
    )


def fewest(reading: Reading) -> Outcome:
    """The fewest GPUs, of powers of two, whose memory holds a run."""
    capacity = Case(SERVING, (f"accelerators/{accelerator_of(reading, 'training')}",)).value(
        "gpu.memory.capacity"
    )
    states = (all_states(reading).value or math.nan) * 1e9 / (capacity or math.nan)
    gpus = 2 ** max(0, math.ceil(math.log2(states)))
    for number in (gpus, 2 * gpus, 4 * gpus):
        outcome = fits(reading.with_values({"gpus": number}))
        if outcome.verdict == "yes":
            said = "of powers of two, the fewest whose memory holds it"
            text = f"{count(number, 'GPU')}: {outcome.text.removeprefix('yes: ')}"
            return replace(outcome, text=text, verdict="", value=number, unit="GPU",
                           assumed=(said, *outcome.assumed))  # fmt: skip
    raise InputError(f"{outcome.text.removeprefix('no: ')}", "more GPUs, or shorter sequences")


def flops(reading: Reading) -> Outcome:
    """FLOPs of a run: those of a token by its tokens."""
    outcome = _figure(
        reading.with_values({"tokens": None}), "architecture.training.flops_per_token"
    )
    tokens = float(reading.get("tokens"))
    whole = tokens * (outcome.result.value or math.nan)
    unit = outcome.result.unit.partition("/")[0]
    text = f"{whole:.3g} {unit}: {tokens_text(tokens)} tokens at {outcome.result.text}"
    said = tuple(line for line in outcome.assumed if not line.startswith("accelerator"))
    sequence = training_case(reading.with_values({"tokens": None})).value("architecture.sequence")
    assumed = (*said, f"sequences of {sequence or math.nan:,.0f} tokens, with their attention")
    return replace(outcome, text=text, value=whole, unit=unit, assumed=assumed)


def trained_tokens(reading: Reading) -> Outcome:
    """Tokens that GPUs train on in some days."""
    days = float(reading.get("days"))
    outcome = throughput(reading.with_values({"days": None}))
    whole = days * SECONDS_OF["day"] * (outcome.result.value or math.nan)
    text = f"{tokens_text(float(f'{whole:.3g}'))} tokens in {days:g} days, without interruptions: {outcome.text}"
    assumed = tuple(
        line for line in outcome.assumed if not line.endswith(" tokens") or "sequences" in line
    )
    return replace(outcome, text=text, value=whole, unit="token", assumed=assumed)


def memory(reading: Reading) -> Outcome:
    """Memory of a GPU in the fastest layout that fits."""
    if gpus_of(reading) is None:
        return all_states(reading)
    outcome = _estimate(reading, "parallelism.memory.total", counts_tokens=False)
    unasked = (f"in {PLACE}", f"{tokens_text(TOKENS)} tokens")
    return replace(outcome, assumed=tuple(line for line in outcome.assumed if line not in unasked))


def energy(reading: Reading) -> Outcome:
    """Energy of a run at the meter."""
    return _estimate(reading, "econ.run.energy")


def emissions(reading: Reading) -> Outcome:
    """Emissions of a run, those of its electricity where no figure of making the GPUs is known."""
    try:
        return _estimate(reading, "carbon.run.total")
    except MissingError as error:
        if error.missing != ["carbon.gpu.embodied"]:
            raise
    outcome = _estimate(reading, "carbon.run.operational")
    said = (
        f"of its electricity: no figure of making a {accelerator_of(reading, 'training')} is known"
    )
    return replace(outcome, assumed=(*outcome.assumed, said))


def water(reading: Reading) -> Outcome:
    """Water of a run, at the site and of its electricity."""
    return _estimate(reading, "carbon.run.water")


def mfu(reading: Reading) -> Outcome:
    """Model FLOPs utilization of a run."""
    return _beside_published(reading, _estimate(reading, "training.mfu", counts_tokens=False))


def throughput(reading: Reading) -> Outcome:
    """Training tokens per second, of the job or of each of its GPUs."""
    counted = reading
    if "per_gpu" in reading.slots and gpus_of(reading) is None:
        counted = reading.with_values({"gpus": SOME})
    outcome = _estimate(counted, "training.tokens_per_second", counts_tokens=False)
    outcome = _beside_published(counted, outcome)
    if "per_gpu" not in reading.slots:
        return outcome
    if counted is not reading:
        outcome = replace(outcome, assumed=(f"{SOME} GPUs", *outcome.assumed))
    number = gpus_of(reading) or SOME
    each = (outcome.result.value or math.nan) / number
    return replace(outcome, text=f"{rounded(each)} token/s per GPU", value=each, unit="token/s")


def _figure(reading: Reading, target: str, **values: str) -> Outcome:
    case = training_case(reading).given(**values)
    # That the scenario's own GPUs may not hold the model is nothing that was asked for.
    result = replace(case.known(target), violated=())
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=case.assumed)


def power(reading: Reading) -> Outcome:
    """Power of a node, of a GPU, or of a job at the meter."""
    if "node" in reading.slots and gpus_of(reading) is None:
        accelerator = with_node_as_gpus(reading).get("accelerator")
        reading = reading.with_values({"nodes": None, "accelerator": accelerator})
        case = training_case(reading).with_entries(f"nodes/{reading.get('node')}")
        result = case.resolve("cluster.node.power", intervals=False).run()
        most = case.resolve("cluster.node.design_power", intervals=False).run()
        text = f"{result.meaning}, training: {result.text}; {most.text} with GPUs at their limit and busy CPUs"
        said = (
            "the data sheet of a node, by which its circuit is sized, states more than its parts draw",
        )
        return Outcome(text, result, (result.command, most.command), assumed=said)
    gpus = gpus_of(reading)
    if gpus is None:
        return _figure(reading, "gpu.power")
    if "model" in reading.slots:
        return _figure(reading, "econ.job.dc_power")
    # Without a model there is no job that so many GPUs would wait in: nodes that all are busy.
    outcome = _figure(
        reading.with_values({"gpus": GPUS_OF_A_NODE, "nodes": None}), "econ.job.dc_power"
    )
    whole = (outcome.result.value or math.nan) / 1e3 * gpus / GPUS_OF_A_NODE
    text = f"{rounded(whole)} kW at the meter: {gpus:,} GPUs, {outcome.result.text} for each {GPUS_OF_A_NODE}"
    assumed = (*outcome.assumed, "all nodes as busy as one that trains by itself")
    return replace(outcome, text=text, value=whole, unit="kW", assumed=assumed)


def _gpu_failures(reading: Reading) -> Outcome:
    """Failures of GPUs alone, a part of all interruptions, in some days."""
    days = reading.get("days", reading.get("per_time"))
    if days is None or "tokens" in reading.slots:
        raise InputError("failures of GPUs in which time?", 'say so: "... per week"')
    gpus = gpus_of(reading) or 1
    lone = dict.fromkeys(("days", "per_time", "gpus", "nodes"))
    case = training_case(reading.with_values(lone))
    result = case.resolve("cluster.failures.gpu_rate", intervals=False).run()
    number = gpus * days / _DAYS_OF_A_YEAR * (result.value or math.nan)
    text = f"{number:,.3g} failures of {count(gpus, 'GPU')} in {days:g} days: {result.text}"
    said = ("failures of GPUs alone: nodes and network interrupt a job, too",)
    return Outcome(text, result, assumed=said, value=number, unit="1")


def failures(reading: Reading) -> Outcome:
    """Mean time between interruptions, or how many there are in some days or in a run."""
    if _OF_GPUS.search(reading.rest):
        return _gpu_failures(reading)
    if "tokens" in reading.slots:
        return _estimate(reading, "cluster.run.interruptions")
    reading_of_job = reading.with_values({"days": None, "per_time": None})
    said: tuple[str, ...] = ()
    if gpus_of(reading) is None:
        reading_of_job, said = reading_of_job.with_values({"gpus": 1}), ("a job of one GPU",)
    outcome = _figure(reading_of_job, "cluster.job.mtbf")
    assumed = (*said, *(line for line in outcome.assumed if not line.startswith("model")))
    hours = outcome.result.value or math.nan
    if (days := reading.get("days", reading.get("per_time"))) is not None:
        number = days * 24 / hours
        text = f"{number:,.3g} interruptions in {days:g} days: one in {outcome.result.text}"
        return Outcome(text, outcome.result, assumed=assumed, value=number, unit="1")
    return Outcome(outcome.text, outcome.result, assumed=assumed)
