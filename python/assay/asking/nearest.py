"""The command that comes nearest to a question that is refused: one that runs, with what was understood."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any, Final

from assay.asking.case import GPUS_OF_A_NODE, Case
from assay.asking.cases import DEFAULTS, gpus_of, place_entries, serving_case
from assay.asking.commands import SERVING, Estimate
from assay.asking.predictions import PredictLoad
from assay.asking.reading import Reading
from assay.asking.splitting import is_held, memory
from assay.asking.training import tokens_text
from assay.catalog import entries
from assay.errors import AssayError

_ESTIMATED: Final = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
"""Accelerators of which the catalog has all that `assay estimate` prints."""
_FEWEST_TOKENS: Final = 1e9
"""Tokens of a run of at least one step, whatever the model."""
_FEWEST_TUNED: Final = 1e6
_KEPT_UP: Final = 0.8
"""Share of the most that a server completes at which it keeps up."""
_PLACE: Final = "us_virginia"
_FIGURE: Final = re.compile(r"\$?\d")
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")
_NEAR: Final = 1e-6
_SAID_OTHERWISE: Final = (
    "per_gpu",
    "per_time",
    "per_tokens",
    "per_replica",
    "native",
    "finance",
    "tuning",
    "tensor",
)
"""Slots of which a figure may be without a word of them in its command."""
_GROUPS: Final = (
    ("model", "models"),
    ("accelerator", "accelerators"),
    ("site", "sites"),
    ("engine", "engines"),
)
_OF_SERVING: Final = (
    "model", "accelerator", "gpus", "nodes", "tensor", "format", "kv_format", "engine", "prompt", "output",
    "context", "concurrency", "site", "place",
)  # fmt: skip
"""Slots that every figure of serving follows from."""


def filled(template: str, reading: Reading, workload: str) -> str:
    """The nearest command with as much of what was understood as it runs with."""
    if "{entries}" in template:
        return _resolving(template, reading)
    defaults = DEFAULTS[workload]
    model = str(reading.get("model", defaults["model"]))
    accelerator = str(reading.get("accelerator", defaults["accelerator"]))
    if template.startswith("assay estimate"):
        return _estimating(model, accelerator, reading)
    if template.startswith("assay predict-load"):
        return _loading(model, accelerator, reading)
    layout = ""
    if template.startswith("assay predict"):
        accelerator, layout = _laid_out(model, accelerator)
    return template.format(model=model, accelerator=accelerator) + layout


def keeps(line: str, reading: Reading) -> bool:
    """Whether a command has every name and number of a question: one without them would mislead."""
    if any(_FIGURE.match(word) for word in reading.words()):
        return False
    words = set(re.split(r"[\s/=':,]+", line))
    numbers = {float(text) for text in _NUMBER.findall(line)}
    for part in reading.mentions:
        if part.slot in _SAID_OTHERWISE:
            continue
        if part.slot == "format":
            kept = "_bytes=" in line or "--dtype" in line or "--format" in line
        elif isinstance(part.value, bool):
            kept = True
        elif isinstance(part.value, int | float):
            sizes = (part.value, 1e3 * part.value, part.value * GPUS_OF_A_NODE)
            kept = any(
                abs(size - number) <= _NEAR * abs(size) for size in sizes for number in numbers
            )
            kept = kept or tokens_text(float(part.value)) in words
        else:
            kept = str(part.value) in words or f"us_{part.value}" in words
        if not kept:
            return False
    return True


def _estimating(model: str, accelerator: str, reading: Reading) -> str:
    """A run of the question's tokens, on its GPUs where they do it."""
    if accelerator not in _ESTIMATED:
        accelerator = DEFAULTS["training"]["accelerator"]
    place = reading.get("place", _PLACE)
    place = place if place in entries.names("tariffs") else _PLACE
    method = "lora" if "qlora" in reading.words() else reading.get("tuning")
    fewest = _FEWEST_TOKENS if method is None else _FEWEST_TUNED
    tokens = tokens_text(max(fewest, reading.get("tokens", 1e12)))
    options = () if method is None else (("method", method),)
    command = Estimate("econ.run.duration", model, accelerator, tokens, place, options)
    if (gpus := gpus_of(reading)) is not None:
        sized = replace(command, options=(*options, ("gpus", gpus)))
        try:
            sized.run()
        except AssayError:
            return command.line
        return sized.line
    return command.line


def _loading(model: str, accelerator: str, reading: Reading) -> str:
    """A load of the question's requests on its GPUs, at a rate that they keep up with."""
    accelerator, layout = _laid_out(model, accelerator)
    rate = float(reading.get("rate", 10))
    lengths = [
        (slot, int(reading.get(slot))) for slot in ("prompt", "output") if slot in reading.slots
    ]
    gpus = gpus_of(reading)
    fewest = [("tensor", int(layout.rpartition(" ")[2]))] if layout else []
    own = [("tensor", gpus)] if gpus is not None and gpus > 1 else fewest
    for options in ((*own, *lengths), (*fewest, *lengths), tuple(fewest)):
        command = PredictLoad(model, accelerator, (rate,), options=tuple(options))
        try:
            answer = command.rows()
        except AssayError:
            continue
        if answer.rates:
            return command.line
        slower = float(f"{_KEPT_UP * answer.completes.rate:.2g}")
        if slower > 0:
            return replace(command, rates=(slower,)).line
    return PredictLoad(model, accelerator, (rate,), options=tuple(fewest)).line


def _laid_out(model: str, accelerator: str) -> tuple[str, str]:
    """An accelerator and the options of a layout on which a model can be predicted."""
    empty = Reading("", "", (), "")
    for name in (accelerator, DEFAULTS["serving"]["accelerator"], "b300_sxm"):
        try:
            asked = empty.with_values({"model": model, "accelerator": name})
            case = serving_case(asked, lone=True)
            predicted = case.value("serving.throughput")
        except AssayError:
            continue
        if case.layout[1] == 1 and predicted is not None:
            return name, f" --tensor {case.layout[0]}" if case.layout[0] > 1 else ""
    return accelerator, ""


def _resolving(template: str, reading: Reading) -> str:
    """The command that resolves a variable, without names that leave it without a value."""
    words = shlex.split(template.format(entries=""))
    target, at = words[2], words.index("--preset")
    preset, options = words[at + 1], (*words[3:at], *words[at + 2 :])
    if preset == SERVING and "model" in reading.slots:
        line = _served(target, options, reading)
        if line:
            return line
    paths = [
        f"{group}/{reading.get(slot)}" for slot, group in _GROUPS if reading.get(slot) is not None
    ]
    paths += place_entries(reading.get("place"))
    fewer = [path for path in paths if not path.startswith("accelerators/")]
    for tried in (paths, fewer):
        try:
            if Case(preset, tuple(tried)).value(target) is not None:
                return template.format(entries="".join(f" --with {path}" for path in tried))
        except AssayError:
            continue
    return template.format(entries="")


def _served(target: str, options: tuple[str, ...], reading: Reading) -> str:
    """The command with the question's own lengths and GPUs, or the fewest that hold the model."""
    lengths: dict[str, Any] = {
        slot: reading.get(slot) for slot in _OF_SERVING if slot in reading.slots
    }
    fewest: dict[str, Any] = {**lengths, "gpus": None, "nodes": None, "tensor": None}
    empty = Reading("", "", (), "")
    for values in (lengths, fewest):
        try:
            case = serving_case(empty.with_values(values), lone=True)
            if is_held(memory(case)) and case.value(target) is not None:
                return case.resolve(target, *options).line
        except AssayError:
            continue
    return ""
