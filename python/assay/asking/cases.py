"""The scenario of a question: catalog entries and values that its names and numbers stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from assay.asking.case import GPUS_OF_A_NODE, Case, number
from assay.asking.commands import SERVING, TRAINING
from assay.asking.names import spellings
from assay.asking.reading import Mention, Reading
from assay.asking.splitting import FEWEST, fewest, laid_out, layout_of, one_instance, refuse_several
from assay.catalog import entries, models, offers
from assay.catalog.entries import normalize_name
from assay.errors import InputError

ANSWER: Final = 256
"""Output tokens of a request that a question does not say."""
ASSUMED_REQUESTS: Final = 64
"""Requests at once that the scenario has."""
SHORT: Final = "1,024 tokens in, 128 out"
"""Lengths of requests that arrive at a rate, where a question does not say them."""
RENT: Final = "econ.rent.price"
_TRAINED_SEQUENCE: Final = 8192
"""Tokens of the sequences of the training scenario."""
CONCURRENCIES: Final = "1,2,4,8,12,16,24,32,48,64,96,128,160,192,256"
"""Numbers of requests that are tried under a service level."""
DEFAULTS: Final = {
    "serving": {"model": "llama-3.1-8b", "accelerator": "h200_sxm"},
    "training": {"model": "llama-3.1-8b", "accelerator": "h100_sxm"},
}
"""What the scenarios that questions start from have; said where a question leaves it open."""
_GGUF: Final = re.compile(r"i?q\d")
_VALUES: Final = {
    "prompt": "serving.prompt={} token",
    "output": "serving.output={} token",
    "concurrency": "serving.concurrency={} request",
    "ttft_limit": "serving.slo.time_to_first_token={} s",
    "tpot_limit": "serving.slo.time_per_output_token={} s/token",
    "electricity_price": "econ.electricity.price={} USD/kWh",
    "rent": "econ.rent.price={} USD/(h*GPU)",
    "gpu_price": "econ.gpu.price={} USD/GPU",
    "pue": "thermal.dc.pue={}",
}
"""Values of the graph that slots give."""


def is_block_format(name: str) -> bool:
    """Whether a format is one of GGUF files."""
    return _GGUF.match(name) is not None


def model_of(reading: Reading, workload: str = "serving") -> str:
    """The model of a question, or the default one."""
    return str(reading.get("model", DEFAULTS[workload]["model"]))


def accelerator_of(reading: Reading, workload: str = "serving") -> str:
    """The accelerator of a question, or the default one."""
    return str(reading.get("accelerator", DEFAULTS[workload]["accelerator"]))


def gpus_of(reading: Reading) -> int | None:
    """The GPUs of a question, stated as such or as nodes."""
    gpus, nodes = reading.get("gpus"), reading.get("nodes")
    if gpus is None and nodes is not None:
        return int(nodes) * GPUS_OF_A_NODE
    return None if gpus is None else int(gpus) * (int(nodes) if nodes else 1)


def with_node_as_gpus(reading: Reading) -> Reading:
    """The reading with the GPUs of a node that it names, such as a DGX H100, instead of the node."""
    node = reading.get("node")
    if node is None or "accelerator" in reading.slots or len(reading.values("node")) > 1:
        return reading
    part = next(part for part in node.split("_") if part != "dgx")
    name = spellings().get(part)
    size = entries.read("nodes", node).given.get("cluster.node.gpus")
    if name is None or size is None:
        return reading
    gpus = round(size) * int(reading.get("nodes", 1))
    return reading.with_values(
        {"node": None, "nodes": None, "accelerator": name.entry, "gpus": gpus}
    )


def assumptions(reading: Reading, workload: str) -> tuple[str, ...]:
    """The names that the question leaves open, or says half."""
    defaults = DEFAULTS[workload]
    lines = []
    for slot in ("model", "accelerator"):
        mention = next((part for part in reading.mentions if part.slot == slot), None)
        if mention is None:
            lines.append(f"{slot} {defaults[slot]}")
        elif mention.is_short or _is_another_name(mention):
            lines.append(f'"{mention.words}" is {mention.value}')
    if "nodes" in reading.slots and "gpus" not in reading.slots:
        lines.append(f"nodes of {GPUS_OF_A_NODE} GPUs")
    return tuple(lines)


def _is_another_name(mention: Mention) -> bool:
    """Whether a model goes by a name that does not show in its entry, as R1 is of DeepSeek-V3."""
    if mention.slot != "model" or mention.words == mention.value:
        return False
    said = normalize_name(mention.words)
    return not said.startswith(normalize_name(mention.value))


def unsaid_lengths(reading: Reading) -> tuple[str, ...]:
    """The lengths of the serving scenario, where the question does not say them."""
    if reading.slots >= {"prompt", "output"} or reading.slots >= {"context", "output"}:
        return ()
    if (context := reading.get("context")) is not None:
        return (f"{max(1, int(context) - ANSWER):,} tokens in, {ANSWER} out",)
    if "prompt" in reading.slots:
        return ("256 tokens out",)
    return ("1,024 tokens in",) if "output" in reading.slots else ("1,024 tokens in, 256 out",)


def unsaid_limits(reading: Reading) -> tuple[str, ...]:
    """The limits of latency that the scenario has and the question does not say."""
    first = () if "ttft_limit" in reading.slots else ("TTFT within 1 s",)
    return (*first, *(() if "tpot_limit" in reading.slots else ("TPOT within 50 ms",)))


def unsaid_workload(reading: Reading) -> tuple[str, ...]:
    """Lengths and requests that the scenario has and the question does not say."""
    requests = (
        () if "concurrency" in reading.slots else (f"{ASSUMED_REQUESTS} concurrent requests",)
    )
    return (*unsaid_lengths(reading), *requests)


def _entries(reading: Reading, workload: str) -> list[str]:
    paths = []
    for slot, group in (
        ("model", "models"),
        ("accelerator", "accelerators"),
        ("site", "sites"),
        ("engine", "engines"),
    ):
        value = reading.get(slot)
        if value is not None:
            paths.append(f"{group}/{value}")
    paths += place_entries(reading.get("place"))
    finance = reading.get("finance")
    if "rent" in reading.slots:
        finance = "rent"
    if finance is not None and not reading.slots & {"provider", "offer"}:
        paths.append("finance/rented" if finance == "rent" else "finance/owned")
    return paths


def require_place(reading: Reading, group: str) -> None:
    """Refuse a place that the catalog has no tariff or grid of."""
    place = reading.get("place")
    if place is not None and place not in entries.names(group):
        raise InputError(
            f"the catalog has no {group[:-1]} of {place}", f"assay catalog list {group}"
        )


def place_entries(place: str | None) -> list[str]:
    """The tariff and the grid of a place, those that the catalog has."""
    if place is None:
        return []
    return [f"{group}/{place}" for group in ("tariffs", "grids") if place in entries.names(group)]


def offer_of(reading: Reading, workload: str = "serving") -> str:
    """The offer that a question names, as `--offer` takes it: a provider, terms, or both."""
    provider, terms = reading.get("provider"), reading.get("offer")
    if provider is not None:
        return f"{provider}:{terms}" if terms else str(provider)
    if terms is None:
        return ""
    accelerator = accelerator_of(reading, workload)
    fitting = [offer for offer in offers.offers(accelerator) if offer.terms == terms]
    if not fitting:
        raise InputError(
            f"the catalog has no {terms} price of {accelerator}", "assay catalog list rents"
        )
    return min(fitting, key=lambda offer: offer.usd_per_hour).name


def common_provider(
    accelerators: Sequence[str], terms: Collection[str] = ("on-demand",)
) -> str | None:
    """A provider that rents out every one of them on all terms: the cheapest, by its sum of rents."""
    rents: dict[str, list[float]] = {}
    for accelerator in accelerators:
        for offer in offers.offers(accelerator):
            if offer.terms in terms:
                rents.setdefault(offer.provider, []).append(offer.usd_per_hour)
    needed = len(accelerators) * len(terms)
    whole = {name: sum(prices) for name, prices in rents.items() if len(prices) == needed}
    return min(whole, key=lambda name: whole[name], default=None)


def serving_case(reading: Reading, *, fits: bool = True, lone: bool = False) -> Case:
    """The serving scenario of a question.

    `fits` splits the model over the fewest GPUs that hold it and its requests; `lone`: and one request.
    """
    assign = [
        text.format(number(reading.get(slot)))
        for slot, text in _VALUES.items()
        if reading.get(slot) is not None
    ]
    if (context := reading.get("context")) is not None:
        if "prompt" in reading.slots:
            raise InputError("a prompt and a context, which holds the prompt", "say one of them")
        output = reading.get("output")
        answer = 1 if output is None and fits is False else int(output or ANSWER)
        prompt = max(1, int(context) - answer)
        assign += [f"serving.prompt={prompt} token", f"serving.output={answer} token"]
    if (load := reading.get("load")) is not None:
        assign.append(f"econ.serving.load={number(load)}")
    offer = offer_of(reading)
    case = Case(SERVING, tuple(_entries(reading, "serving")), tuple(assign), offer=offer)
    case = replace(case, assumed=assumptions(reading, "serving"))
    if offer and "provider" not in reading.slots:
        case = replace(case, assumed=(*case.assumed, f"rented at {offer}"))
    case = _with_formats(case, reading)
    return _with_layout(case, reading, fits, lone)


def _with_formats(case: Case, reading: Reading) -> Case:
    """The case with stored and computed formats of the question."""
    if not reading.slots & {"format", "kv_format"}:
        return case
    from assay.planner import formats

    if (kv := reading.get("kv_format")) is not None:
        case = case.given(serving__kv_bytes=f"{formats.kv_bytes(kv):g} byte")
    name = reading.get("format")
    if name is None:
        return case
    accelerator = entries.read("accelerators", accelerator_of(reading))
    run = formats.weight_execution(name, accelerator.given)
    size = f"{run.weight_bytes:g} byte"
    if run.format == "int8" and run.compute_bits == 8:
        # Before any value is read: an accelerator may have INT8 tensor cores and none of FP8.
        case = replace(case, variant=(*case.variant, "gpu.rate_8bit=gpu.integer_8bit"))
    case = case.given(serving__weight_bytes=size, serving__compute_bits=run.compute_bits)
    if case.value("architecture.experts"):
        case = case.given(serving__expert_bytes=size, serving__expert_bits=run.compute_bits)
    if is_block_format(run.format):
        return _of_file(case, name, model_of(reading))
    return replace(case, assumed=(*case.assumed, run.note)) if run.note else case


def _of_file(case: Case, name: str, model: str) -> Case:
    """The case with the weights of a GGUF file, tensor by tensor, in the memory that llama.cpp takes."""
    from assay.planner import gguf_mixes

    said = f"{name} weights, multiplied in 16 bits"
    if gguf_mixes.canonical(name):
        mix = gguf_mixes.mix(name, models.find(model).shapes)
        case = case.given(
            serving__weight_bytes=f"{mix.weights:.6g} byte",
            serving__embedding_bytes=f"{mix.embeddings:.6g} byte",
        )
        if case.value("architecture.experts"):
            case = case.given(serving__expert_bytes=f"{mix.experts:.6g} byte")
        said = f"{said}, {8 * mix.weights:.3g} bits each and {8 * mix.embeddings:.3g} of embeddings"
    # Who runs GGUF files has an engine that takes what it needs, not nine tenths at its start.
    case = case.given(serving__memory_share=1)
    return replace(case, assumed=(*case.assumed, said, "all of the memory, as llama.cpp takes it"))


def _with_layout(case: Case, reading: Reading, fits: bool, lone: bool) -> Case:
    """The case on the question's GPUs, or on the fewest that hold the model."""
    gpus = gpus_of(reading)
    if (tensor := reading.get("tensor")) is not None:
        if gpus not in (None, int(tensor)):
            raise InputError(
                f"{gpus} GPUs and {tensor} tensor ranks: replicas or pipeline stages?",
                "assay predict --tensor N --pipeline N takes any layout",
            )
        return laid_out(case, (int(tensor), 1))
    if gpus is not None:
        if fits:
            refuse_several(case, gpus)
        layout = layout_of(case, gpus)
        case = laid_out(case, layout)
        return case if gpus == 1 else replace(case, assumed=(*case.assumed, one_instance(layout)))
    if not fits:
        return case
    layout = fewest(case, lone)
    if layout == (1, 1):
        return case
    case = laid_out(case, layout)
    of = FEWEST if lone else f"{FEWEST} and its requests"
    return replace(case, assumed=(*case.assumed, f"{layout[0] * layout[1]} GPUs, {of}"))


def training_case(reading: Reading) -> Case:
    """The training scenario of a question, on a site that is large enough for it."""
    assign = []
    for slot in ("electricity_price", "rent", "gpu_price", "pue"):
        if reading.get(slot) is not None:
            assign.append(_VALUES[slot].format(number(reading.get(slot))))
    if reading.get("load") is not None:
        assign.append(f"econ.utilisation={number(reading.get('load'))}")
    sequence, longest = reading.get("context"), models.find(model_of(reading, "training")).context
    if sequence is None and longest is not None and longest < _TRAINED_SEQUENCE:
        sequence = longest
    if sequence is not None:
        assign.append(f"architecture.sequence={sequence} token")
    gpus = gpus_of(reading)
    if gpus is not None:
        nodes = max(128, math.ceil(gpus / GPUS_OF_A_NODE))
        assign += [f"training.gpus={gpus} GPU", f"training.batch={max(128, gpus)}"]
        if nodes > 128:
            assign += [f"cluster.nodes={nodes} node", f"thermal.dc.feed_power={nodes * 30} kW"]
    case = Case(TRAINING, tuple(_entries(reading, "training")), tuple(assign))
    return replace(case, assumed=assumptions(reading, "training"))
