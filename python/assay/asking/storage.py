"""Answers about bytes that are stored or moved: checkpoints, optimizer states, loading of weights."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.cases import assumptions, gpus_of, serving_case, training_case
from assay.asking.outcome import Outcome, of_case
from assay.asking.reading import Reading
from assay.asking.run_memory import RANK
from assay.errors import InputError

_MANY: Final = 1024
"""GPUs of a job that a question about checkpoints does not say."""
_TRAINED_ON: Final = ((4096, "llama-3.1-405b"), (512, "llama-3.1-70b"), (0, "llama-3.1-8b"))
"""GPUs from which a job trains a model, where a question does not name one."""
_STATES: Final = (
    (re.compile(r"\bweights\b"), "parallelism.memory.weights"),
    (re.compile(r"\bgradients?\b"), "parallelism.memory.gradients"),
    (re.compile(r"\boptimi[sz]er|\badamw?\b"), "parallelism.memory.optimizer"),
)
"""What a training run holds besides activations, by words."""
_GIB: Final = 2**30 / 1e9


def checkpoint(reading: Reading) -> Outcome:
    """Size of a checkpoint, time to write it, or the best interval between two."""
    if any(word in reading.rest for word in ("size", "big", "large")):
        return _figure(reading, "cluster.checkpoint.size")
    spaced = "interval" in reading.rest or "often" in reading.rest
    if "model" not in reading.slots and not spaced:
        raise InputError("a checkpoint of which model?", 'name one: "... of Llama 3.1 405B"')
    if "model" not in reading.slots:
        # A checkpoint is of a model that such a job would train.
        gpus = gpus_of(reading) or _MANY
        name = next(model for least, model in _TRAINED_ON if gpus >= least)
        outcome = checkpoint(reading.with_values({"model": name}))
        return replace(
            outcome, assumed=(f"model {name}, as of a job of its size", *outcome.assumed)
        )
    target = "cluster.checkpoint.interval" if spaced else "cluster.checkpoint.time"
    if gpus_of(reading) is not None:
        return _figure(reading, target)
    outcome = _figure(reading.with_values({"gpus": _MANY}), target)
    return replace(outcome, assumed=(*outcome.assumed, f"{_MANY:,} GPUs"))


def _figure(reading: Reading, target: str) -> Outcome:
    case = training_case(reading)
    if (rate := reading.get("bandwidth")) is not None:
        # The bandwidth of the question is of all nodes together.
        case = case.given(
            cluster__storage__bandwidth=f"{rate / 1e9:g} GB/s",
            cluster__storage__node_bandwidth=f"{rate / 1e9:g} GB/(s*node)",
        )
    return of_case(case, target)


def loading(reading: Reading) -> Outcome:
    """How long it takes to read the weights of a model at a bandwidth."""
    case = serving_case(reading.with_values({"bandwidth": None}), fits=False)
    result = replace(case.resolve("serving.weight_memory", intervals=False).run(), violated=())
    rate = float(reading.get("bandwidth")) / 1e9
    seconds = (result.value or math.nan) / rate
    text = (
        f"{rounded(seconds)} s: {rounded(result.value or math.nan)} GB of weights at {rate:g} GB/s"
    )
    assumed = tuple(line for line in case.assumed if not line.startswith("accelerator"))
    return Outcome(text, result, assumed=assumed, value=seconds, unit="s")


def optimizer_states(reading: Reading) -> Outcome:
    """Bytes of the states of the optimizer, and of gradients and weights where they are named, too."""
    named = [target for words, target in _STATES if words.search(reading.rest)]
    outcomes = [_states(reading, target, gpus_of(reading)) for target in named]
    if len(outcomes) == 1:
        return outcomes[0]
    values = [outcome.number[0] or math.nan for outcome in outcomes]
    first = outcomes[0]
    meanings = " and ".join(outcome.result.meaning for outcome in outcomes)
    whole, unit = math.fsum(values), first.number[1]
    of_what = ", of the whole model" if first.value is not None else ""
    text = f"{meanings}: {rounded(whole)} {unit}{of_what}"
    commands = tuple(outcome.result.command for outcome in outcomes)
    return replace(first, text=text, commands=commands, value=whole, unit=unit)


def all_states(reading: Reading) -> Outcome:
    """Bytes of weights, gradients and optimizer states of a run, without activations."""
    outcome = _states(reading, "parallelism.memory.states", gpus_of(reading))
    return replace(outcome, assumed=(*outcome.assumed, "activations come on top of it"))


def _states(reading: Reading, target: str, gpus: int | None) -> Outcome:
    case = training_case(reading.with_values({"gpus": gpus or 1, "nodes": None}))
    if reading.get("tuning") == "lora":
        case = case.given(parallelism__adapter_rank=RANK)
    # Limits of memory do not matter here: the question is how much there is to hold.
    result = replace(case.resolve(target, intervals=False).run(), violated=())
    assumed = [
        line for line in assumptions(reading, "training") if not line.startswith("accelerator")
    ]
    assumed.append("Adam with a copy of the weights in 32 bits")
    if reading.get("tuning") == "lora":
        assumed.append(f"LoRA of rank {RANK}")
    if gpus is None:
        whole = (result.value or math.nan) * _GIB
        text = f"{result.meaning}: {rounded(whole)} GB, of the whole model"
        return Outcome(text, result, assumed=tuple(assumed), value=whole, unit="GB")
    assumed.append(f"divided over {gpus:,} GPUs (ZeRO)")
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=tuple(assumed))
