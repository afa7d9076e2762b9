"""Published training cases as inputs of the graph, with the figures that were observed."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from assay.catalog import accelerators, models
from assay.catalog.entries import Entry
from assay.errors import AssayError
from assay.stack import registry
from assay.validate.cases import Case
from assay.validate.training_software import Software, software_of, text_of

DEFAULT_BATCH_TOKENS = 4e6
BATCH_TOKENS_PER_GPU = 1e3
FEWEST_GPUS = 256
LONGEST_RUN_DAYS = 75
PASSES_PER_STAGE = 4
_SHARED_FIELDS = (
    "interconnect", "network", "zero_stage", "activation_recompute", "position", "precision",
    "framework", "kv_heads", "ffn", "vocab", "schedule",
)  # fmt: skip
_LAYOUT_FIELDS = (
    "tp", "pp", "model_parallel", "cp", "dp", "vp", "interleave", "micro_batch", "n_gpus", "seq_len",
    "global_batch", "batch_per_dp", "zero_stage", "activation_recompute", "interconnect", "network",
)  # fmt: skip
_JOB_FIELDS = ("gpu", "n_gpus", "hidden", "layers", "heads", "tp", "pp", "dp")
_ADAPTERS = re.compile(r"(\d+)\s*x\s*(?:[A-Za-z-]+\s+)?(\d+)\s*Gb/s")
_NODE_RATE = re.compile(r"(\d+)\s*Gb/s[^,;]*per node")
_WAYS = re.compile(r"(\d+)-way (?:model|tensor)")
_ADAPTER_RATE = re.compile(r"(\d+)\s*Gb/s")


_OVERRIDES = {"layers": "layers", "vocab": "vocabulary", "ffn": "ffn", "kv_heads": "kv_heads"}


LAYOUT = (
    "training.gpus",
    "parallelism.tensor",
    "parallelism.pipeline",
    "parallelism.interleave",
    "parallelism.micro_batch",
    "parallelism.zero_stage",
    "parallelism.recompute",
    "parallelism.sequence_parallel",
)
"""What a layout decides; a case may leave any of it open."""

RATES = ("gpu.memory.bandwidth", "gpu.link.bandwidth")


class Gap(Exception):
    """Why a case cannot be predicted."""


@dataclass(frozen=True)
class Job:
    """A case's run: values by variable in base units, and layouts of which the best counts."""

    case: Case
    system: str
    bits: float
    values: dict[str, float]
    layouts: tuple[dict[str, float], ...]
    counts_gpus: bool
    """Whether only GPU time is known, because the number of GPUs is not."""
    total_tokens: float | None = None
    notes: tuple[str, ...] = ()
    software: Software | None = field(default=None, repr=False)


def completed(case: Case, siblings: Sequence[Case]) -> Case:
    """The case with fields that another case of the same source and job states."""
    inputs = dict(case.inputs)
    same = [
        other
        for other in siblings
        if other is not case
        and other.source.get("url") == case.source.get("url")
        and all(other.inputs.get(name) == inputs.get(name) for name in _JOB_FIELDS)
    ]
    reference = inputs.get("same_config_as") or inputs.get("same_model_as")
    named = [other for other in siblings if other.id == reference]
    for other in named:
        for name, value in other.inputs.items():
            inputs.setdefault(name, value)
    for name in _SHARED_FIELDS:
        stated = [o.inputs[name] for o in same if o.inputs.get(name) is not None]
        if inputs.get(name) is None and stated:
            inputs[name] = stated[0]
    return Case(case.id, case.kind, inputs, case.observed, case.source, case.notes, case.tier)


def read_job(case: Case, siblings: Sequence[Case]) -> Job:
    """A case as a job; raises Gap with the reason where something needed is not stated."""
    case = completed(case, siblings)
    inputs = case.inputs
    entry = _accelerator(case)
    notes: list[str] = []
    shapes = _shapes(case, notes)
    case = _with_layout(case, shapes, siblings, notes)
    inputs = case.inputs
    software = software_of(case, siblings, launch_year(entry))
    notes += software.notes
    values = {
        **entry.base,
        **_rates(entry.name),
        **shapes,
        **software.values,
        **_network(inputs, notes),
    }
    sequence = _sequence(inputs, notes)
    bits = 8.0 if "fp8" in str(inputs.get("precision", "")).lower() else 16.0
    gpus = inputs.get("n_gpus") or inputs.get("n_chips") or _product(inputs, "dp")
    counts = [int(gpus)] if gpus else _counts(case, entry, bits, notes)
    batch = _batch(inputs, sequence, counts[0], notes)
    values |= {
        "architecture.sequence": sequence,
        "training.batch": batch,
        "training.compute_bits": bits,
        "parallelism.context": float(inputs.get("cp") or 1),
        "parallelism.expert": float(inputs.get("ep") or 1),
    }
    layouts = tuple(_layouts(case, software, values, counts, notes))
    if not layouts:
        raise Gap("no layout divides the job as stated")
    return Job(
        case, entry.name, bits, values, layouts, counts_gpus=not gpus,
        total_tokens=_total_tokens(inputs), notes=tuple(notes), software=software,
    )  # fmt: skip


def _product(inputs: dict[str, Any], needed: str) -> int | None:
    """GPUs that the stated splits make, if the one that is needed is among them."""
    if needed and not inputs.get(needed):
        return None
    names = [name for name in ("tp", "pp", "cp", needed) if name]
    return math.prod(int(inputs.get(name) or 1) for name in names)


def _with_layout(
    case: Case, shapes: dict[str, float], siblings: Sequence[Case], notes: list[str]
) -> Case:
    """The case with the layout that another case states for the same model and accelerator."""
    inputs = case.inputs
    if any(inputs.get(name) for name in (*_LAYOUT_FIELDS[:3], "sharding", "scheme", "parallel")):
        return case
    sides = ("hidden", "layers", "heads", "vocabulary")
    size = [shapes[f"architecture.{name}"] for name in sides]
    for other in siblings:
        theirs = other.inputs
        is_same = theirs.get("gpu") == inputs.get("gpu") and size == [
            theirs.get(name) for name in (*sides[:3], "vocab")
        ]
        same_length = inputs.get("seq_len") in (None, theirs.get("seq_len"))
        if other.id != case.id and is_same and same_length and theirs.get("tp"):
            stated = {name: theirs[name] for name in _LAYOUT_FIELDS if theirs.get(name)}
            own = {name: value for name, value in inputs.items() if value is not None}
            notes.append(f"layout not stated: that of {other.id}")
            return replace(case, inputs={**stated, **own})
    return case


def _counts(case: Case, entry: Entry, bits: float, notes: list[str]) -> list[int]:
    """Powers of two that would end the run in time at 0.4 of peak."""
    inputs, least = case.inputs, FEWEST_GPUS
    tokens, size = _total_tokens(inputs), inputs.get("params_B") or inputs.get("params_active_B")
    if tokens and size:
        base = entry.base
        peak = base["gpu.multiprocessors"] * base["gpu.flops_per_cycle"] * base["gpu.clock"]
        seconds = (
            6 * size * 1e9 * tokens / (0.4 * peak * (base["gpu.rate_8bit"] if bits < 16 else 1))
        )
        needed = seconds / (LONGEST_RUN_DAYS * 86400)
        least = max(least, 2 ** math.ceil(math.log2(needed)))
    notes.append(f"number of GPUs not stated: the best of {least} to {4 * least}")
    return [least, 2 * least, 4 * least]


def _accelerator(case: Case) -> Entry:
    inputs = case.inputs
    name = inputs.get("gpu") or inputs.get("accelerator")
    if not name and "total_train_flop" in case.observed:
        name = "H100"  # counted operations are the same on any
    if not name:
        raise Gap("no accelerator is stated")
    try:
        return accelerators.find(str(name))
    except AssayError as error:
        raise Gap(error.message) from None


@cache
def _rates(name: str) -> dict[str, float]:
    """Rates of memory and links, which some accelerators state and others compose of parts."""
    given, known = accelerators.find(name).given, registry()
    found = {rate: known.resolve(rate, given).value for rate in RATES}
    return {rate: value for rate, value in found.items() if value is not None}


def launch_year(entry: Entry) -> float:
    """When the accelerator's family came out: the first of its name."""
    family = entry.name.partition("_")[0]
    dates = [
        str(other.facts.get("launched", ""))
        for other in accelerators.all_accelerators()
        if other.name.partition("_")[0] == family
    ]
    years = [
        int(date[:4]) + (int(date[5:7]) - 1) / 12
        for date in dates
        if re.match(r"\d{4}-\d{2}", date)
    ]
    return min(years, default=2020.0)


def _shapes(case: Case, notes: list[str]) -> dict[str, float]:
    inputs = case.inputs
    words = text_of(case)
    if not all(inputs.get(name) for name in ("hidden", "layers", "heads")):
        found = _named_model(case)
        notes.append(f"shapes of {found.name} from the catalogue")
        changed = {
            f"architecture.{variable}": float(inputs[name])
            for name, variable in _OVERRIDES.items()
            if inputs.get(name)
        }
        return {**found.given, **changed}
    fields: dict[str, Any] = {"num_key_value_heads": inputs.get("kv_heads")}
    hidden = float(inputs["hidden"])
    width = inputs.get("ffn") or inputs.get("dense_ffn")
    gated = any(
        word in words for word in ("llama", "mistral", "mixtral", "qwen", "deepseek", "gemma")
    )
    if width is None and gated:
        # LLaMA takes two thirds of four times the width, up to the next multiple of 256.
        width = math.ceil(8 * hidden / 3 / 256) * 256
        notes.append(f"feed-forward width not stated: {width}")
    model_type = "llama" if gated else "mpt"
    if inputs.get("experts"):
        model_type = "deepseek_v3" if inputs.get("shared_experts") else "mixtral"
        fields |= {
            "n_routed_experts": inputs["experts"], "num_experts_per_tok": inputs["experts_active"],
            "moe_intermediate_size": inputs.get("moe_ffn") or width,
            "n_shared_experts": inputs.get("shared_experts"),
            "first_k_dense_replace": inputs.get("dense_layers"),
        }  # fmt: skip
        fields |= _latent(words, notes)
    vocabulary = inputs.get("vocab")
    if not vocabulary:
        vocabulary = 51200
        notes.append("vocabulary not stated: 51200")
    found = models.from_dimensions(
        layers=inputs["layers"], hidden=hidden, heads=inputs["heads"], vocabulary=vocabulary,
        name=case.id, model_type=model_type,
        intermediate_size=width if width is not None else 4 * hidden, **fields,
    )  # fmt: skip
    return found.given


def _named_model(case: Case) -> models.Model:
    """The model that a case names, in its field or at the end of its id."""
    parts = case.id.split("-")
    endings = ["-".join(parts[start:]) for start in range(1, len(parts))]
    stated = [str(case.inputs["model"])] if case.inputs.get("model") else endings
    for name in stated:
        try:
            return models.find(name)
        except AssayError as error:
            reason = error.message
    raise Gap(reason if case.inputs.get("model") else "neither shapes nor a known model are stated")


def _latent(words: str, notes: list[str]) -> dict[str, Any]:
    """Widths of compressed attention, which cases with experts leave to the model's name."""
    if "deepseek-v3" not in words and "deepseek v3" not in words:
        return {}
    notes.append("widths of compressed attention from the catalogue: deepseek-v3")
    config = models.find("deepseek-v3").config
    names = ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    return {name: config[name] for name in names}


def _network(inputs: dict[str, Any], notes: list[str]) -> dict[str, float]:
    text = f"{inputs.get('interconnect') or ''}; {inputs.get('network') or ''}"
    per_gpu: float | None = None
    if found := _ADAPTERS.search(text):
        per_gpu = int(found[1]) * int(found[2]) / 8
    elif found := _NODE_RATE.search(text):
        per_gpu = int(found[1]) / 8
    elif found := _ADAPTER_RATE.search(text):
        per_gpu = float(found[1])
    if per_gpu is None:
        notes.append("network not stated: the accelerator's usual one")
        return {}
    return {"interconnect.nic.count": 1.0, "interconnect.nic.line_rate": per_gpu * 1e9 / 8}


def _sequence(inputs: dict[str, Any], notes: list[str]) -> float:
    if inputs.get("seq_len"):
        return float(inputs["seq_len"])
    notes.append("sequence not stated: 8192 tokens")
    return 8192.0


def _batch(inputs: dict[str, Any], sequence: float, gpus: float, notes: list[str]) -> float:
    if inputs.get("global_batch"):
        return float(inputs["global_batch"])
    if inputs.get("batch_per_dp") and inputs.get("dp"):
        return float(inputs["batch_per_dp"] * inputs["dp"])
    if inputs.get("grad_accum") and inputs.get("micro_batch"):
        replicas = gpus / (_product(inputs, "") or 1)
        return float(inputs["grad_accum"] * inputs["micro_batch"] * replicas)
    tokens = inputs.get("global_batch_tokens_M") or inputs.get("tokens_per_batch_M")
    if tokens:
        return max(1.0, round(float(tokens) * 1e6 / sequence))
    notes.append(
        "batch not stated: 4 million tokens, a thousand a GPU, or four passes for every stage"
    )
    tensor, pipeline = (float(inputs.get(name) or 1) for name in ("tp", "pp"))
    filling = PASSES_PER_STAGE * gpus / tensor if pipeline > 1 else 1.0
    tokens = max(DEFAULT_BATCH_TOKENS, BATCH_TOKENS_PER_GPU * gpus)
    return max(1.0, round(tokens / sequence), round(filling))


def _total_tokens(inputs: dict[str, Any]) -> float | None:
    for name, scale in (
        ("tokens", 1.0), ("tokens_T", 1e12), ("tokens_B", 1e9), ("total_tokens_B", 1e9),
    ):  # fmt: skip
        if inputs.get(name):
            return float(inputs[name]) * scale
    return None


def _layouts(
    case: Case, software: Software, values: dict[str, float], counts: Sequence[int],
    notes: list[str],
) -> list[dict[str, float]]:  # fmt: skip
    """Every layout that the case leaves open; batches that nothing divides are split unevenly."""
    inputs = case.inputs
    splits = _splits(inputs, software)
    if splits == [(1, 1)] and values["training.batch"] < min(counts):
        splits = None
    stages, recomputes = [software.zero_stage], [software.recompute or 0.0]
    if splits is None:
        notes.append("layout not stated: the best that fits in memory")
        splits = [(tensor, 1) for tensor in (1, 2, 4, 8)] + [(8, p) for p in (2, 4, 8, 16)]
        stages = [1.0, 3.0] if software.zero_stage == 1 else stages
        recomputes = [0.0, 1.0, 2.0] if software.recompute is None else recomputes
    elif software.recompute is None:
        notes.append("recomputation not stated: none")
    sizes = (
        [float(inputs["micro_batch"])] if inputs.get("micro_batch") else [1.0, 2.0, 4.0, 8.0, 16.0]
    )
    if len(sizes) > 1:
        notes.append("micro-batch not stated: the best")
    parts = inputs.get("vp") or inputs.get("interleave")
    batch, context = values["training.batch"], values["parallelism.context"]
    found, exact = [], []
    for gpus, (tensor, pipeline), size, stage, recompute in itertools.product(
        counts, splits, sizes, stages, recomputes
    ):
        each = size * gpus / (tensor * pipeline * context)
        if each < size or (len(sizes) > 1 and each > batch) or (pipeline > 1 and stage > 1):
            continue
        for interleave in _interleaves(parts, software, pipeline, values["architecture.layers"]):
            splits_tokens = float(software.sequence_parallel and tensor > 1)
            layout = (gpus, tensor, pipeline, interleave, size, stage, recompute, splits_tokens)
            found.append(dict(zip(LAYOUT, map(float, layout), strict=True)))
            exact.append(batch % each == 0)
    if inputs.get("global_batch") and any(exact):
        return [layout for layout, is_exact in zip(found, exact, strict=True) if is_exact]
    return found


def _splits(inputs: dict[str, Any], software: Software) -> list[tuple[int, int]] | None:
    tensor, pipeline = inputs.get("tp"), inputs.get("pp")
    if not tensor and (ways := _WAYS.search(str(inputs.get("parallel", "")).lower())):
        tensor = int(ways[1])
    if tensor or pipeline:
        return [(int(tensor or 1), int(pipeline or 1))]
    if model := inputs.get("model_parallel"):
        if inputs.get("scheme") and software.zero_stage > 0:
            return [(1, 1)]
        tensor = min(8, int(model))
        return [(tensor, int(model) // tensor)]
    if inputs.get("sharding") or software.zero_stage > 1:
        return [(1, 1)]
    return None


def _interleaves(parts: Any, software: Software, pipeline: int, layers: float) -> Iterator[float]:
    if pipeline == 1 or (parts is None and not software.interleaves):
        yield 1.0
    elif parts is not None:
        yield float(parts)
    else:
        longest = math.ceil(layers / pipeline)
        yield from (
            float(split)
            for split in (1, 2, 3, 4, 8)
            if math.ceil(layers / (pipeline * split)) * split <= longest
        )
