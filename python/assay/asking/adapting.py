"""A question in the slots of its intent: nodes as GPUs, requests as those at once, sizes as GPUs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.cases import ANSWER, model_of, with_node_as_gpus
from assay.asking.intents.intent import Intent
from assay.asking.numbers import GPU_NAME
from assay.asking.reading import Mention, Reading
from assay.asking.text import MASKS
from assay.catalog import entries, models
from assay.errors import InputError

_AT_ONCE: Final = ("kv", "fit", "users", "fewest", "throughput", "tpot", "ttft", "limit")
"""Intents to which a number of requests is of those at once."""
_OF_TOKENS: Final = ("energy", "emissions", "water", "cost")
"""Intents to which tokens that are generated are a number of them."""
_GENERATED: Final = re.compile(r"\b(?:generat|produc|mak|writ)(?:e|es|ing) " + MASKS["number"])
_DEAREST_HOUR: Final = 20.0
"""Dollars below which a price of renting is of an hour."""
_OF_A_GB: Final = 0.5
_SIZED: Final = re.compile(r"(?<=[\d ])gi?b[ -](?:vram |memory |nvidia )?(?:gpu|card)s?\b")
_LONE_CARD: Final = re.compile(
    r"\b(?:an?|my|one|single|this) \d+ ?gi?b[ -](?:vram |memory |nvidia )?(?:gpu|card)\b"
)
_ARTICLED: Final = re.compile(
    r"\b(?:an?|my|single|this) (?:single |nvidia |amd |geforce )*"
    + GPU_NAME
    + r"(?![s\w])(?![ -]*(?:nodes?|servers?|clusters?|box(?:es)?|machines?|systems?|instances?|racks?|pods?)\b)"
)
"""An accelerator with an article, as the mask of its name."""
_USUAL: Final = (
    "t4", "l4", "rtx_3090", "rtx_4090", "rtx_5090", "l40s", "a100_sxm_40gb", "a100_sxm", "h100_sxm",
    "h200_sxm", "b200_sxm", "mi300x",
)  # fmt: skip
"""GPUs that a size of memory may stand for."""


def adapted(reading: Reading, intent: Intent) -> Reading:
    """The reading in the slots of an intent: a node as its GPUs, requests as those at once."""
    if (
        intent.name in ("break-even", "payback", "cost")
        and (intent.name != "cost" or reading.values("finance") == ["buy"])
        and "gpu_price" not in reading.slots
        and "budget" in reading.slots
    ):
        # Bought for so much: the price of the GPU.
        reading = reading.with_values({"budget": None, "gpu_price": reading.get("budget")})
    if "model" in intent.slots and "node" not in intent.slots and intent.name != "cost":
        reading = with_node_as_gpus(reading)
    if intent.name == "users" and "speed" in reading.slots and "tpot_limit" not in reading.slots:
        speed = float(reading.get("speed"))
        said = (*reading.said, f"{speed:g} tokens/s for each user")
        reading = reading.with_values({"speed": None, "tpot_limit": 1 / speed})
        reading = replace(reading, said=said)
    hired = reading.values("finance") == ["rent"] and "rent" not in reading.slots
    if intent.name == "train-cost" and hired and reading.get("budget", math.inf) < _DEAREST_HOUR:
        # Renting at so many dollars: an hour of a GPU.
        said = (*reading.said, f"${reading.get('budget'):g} by the GPU-hour")
        reading = reading.with_values({"budget": None, "rent": reading.get("budget")})
        reading = replace(reading, said=said)
    if intent.name == "rent" and "budget" in reading.slots:
        # So many GPU-hours at a price: of an hour.
        reading = reading.with_values({"budget": None, "rent": reading.get("budget")})
    if "prompt" in reading.slots and not reading.slots & {"output", "context"}:
        prompt, longest = int(reading.get("prompt")), models.find(model_of(reading)).context
        if longest is not None and prompt <= longest < prompt + ANSWER:
            # A prompt as long as the model's context leaves no room for an answer beside it.
            said = (*reading.said, f"{prompt:,} tokens with the answer")
            reading = replace(reading.with_values({"prompt": None, "context": prompt}), said=said)
    if "model" in intent.slots and not reading.slots & {"gpus", "nodes", "tensor"}:
        reading = _with_one_gpu(reading)
    generated = intent.name in _OF_TOKENS and _GENERATED.search(reading.rest)
    if generated and not reading.slots & {"tokens", "per_tokens", "requests", "prompt", "context"}:
        # What it takes to generate so many tokens is theirs, not that of a request of as many.
        reading = reading.with_values({"output": None, "tokens": reading.get("output")})
    size, accelerator = reading.get("memory"), reading.get("accelerator")
    sized = intent.name != "size-fit" and size is not None and accelerator is not None
    if sized and _has_memory(accelerator, size):
        # A 24 GB RTX 4090: the accelerator's own memory says nothing more.
        reading = reading.with_values({"memory": None})
    if (
        intent.name in _AT_ONCE
        and "concurrency" not in reading.slots
        and "requests" in reading.slots
    ):
        reading = reading.with_values({"requests": None, "concurrency": reading.get("requests")})
    return reading


def _with_one_gpu(reading: Reading) -> Reading:
    """The reading with a count of one where every accelerator has an article: "on an H100"."""
    count = sum(part.slot == "accelerator" for part in reading.mentions)
    if not count or "node" in reading.slots or len(_ARTICLED.findall(reading.rest)) < count:
        return reading
    counted: list[Mention] = []
    for part in reading.mentions:
        if part.slot == "accelerator":
            counted.append(Mention("gpus", 1, "one"))
        counted.append(part)
    return replace(reading, mentions=tuple(counted))


def with_sized_gpus(reading: Reading, intent: Intent | None) -> Reading:
    """The reading with the GPUs that an "80 GB GPU" may be, each an alternative; said."""
    size = reading.get("memory")
    if size is None or "accelerator" in reading.slots or not _SIZED.search(reading.text):
        return reading
    if intent is not None and "memory" in intent.slots:
        return reading
    fitting = [name for name in _USUAL if _has_memory(name, size)]
    if not fitting:
        raise InputError(
            f"the catalog has no GPU of {size:g} GB",
            "name the GPU; assay catalog list accelerators",
        )
    kept = tuple(part for part in reading.mentions if part.slot != "memory")
    added = tuple(Mention("accelerator", name, f"{size:g} GB") for name in fitting)
    if _LONE_CARD.search(reading.text) and not reading.slots & {"gpus", "nodes", "tensor"}:
        added = (Mention("gpus", 1, "one"), *added)
    said = f"GPUs of {size:g} GB: {', '.join(fitting)}"
    return replace(reading, mentions=(*kept, *added), said=(*reading.said, said))


def _has_memory(accelerator: str, size: float) -> bool:
    """Whether an accelerator is sold with so many GB of memory, as GB or GiB."""
    own = entries.read("accelerators", accelerator).given.get("gpu.memory.capacity", 0.0)
    return any(abs(own / unit - size) < _OF_A_GB for unit in (1e9, 2**30))
