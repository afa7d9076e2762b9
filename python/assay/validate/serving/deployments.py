"""Published serving cases as inputs of the graph: accelerator, model, parallelism, load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assay.catalog import accelerators, engines, expert_formats, models, stand_ins
from assay.catalog.entries import CatalogEntry
from assay.errors import InputError
from assay.validate.cases import Case
from assay.validate.serving import fields
from assay.validate.serving.fields import parse_count

UNLIMITED = 1e6
"""Concurrency of a saturated server."""

ALL_HEADS = 1e3
OLD_GROUP = 3.0
"""Query heads that shared key reads through the cache before kernels grouped them (GQA)."""


@dataclass(frozen=True)
class ObservedFigure:
    """One observed figure, and the output of the graph it is compared with."""

    quantity: str
    unit: str
    observed: float
    variable: str
    scale: float = 1.0
    group: str = ""
    """The group that it is scored in, where the output alone does not decide it."""


@dataclass(frozen=True)
class Deployment:
    """A case as inputs of the graph, with its observed figures."""

    case: Case
    system: str
    engine: str
    client: str
    model: str
    values: dict[str, float]
    figures: list[ObservedFigure]
    notes: list[str] = field(default_factory=list)
    release: tuple[int, ...] = ()
    """The engine's release as numbers; empty where none is stated."""
    arrival_rate: float | None = None
    """Requests per second that an open loop sends to one server, whether or not it keeps up."""
    prompt_values: dict[str, float] | None = None
    """Inputs of the prefill GPUs, in disaggregated deployments."""


QUANTITIES = {
    "first_token_latency_ms": ("time_to_first_token", 1e3),
    "ttft_ms": ("time_to_first_token", 1e3),
    "prefill_ms": ("prompt_time", 1e3),
    "tpot_ms": ("step_time", 1e3),
    "itl_ms": ("step_time", 1e3),
    "step_ms": ("step_time", 1e3),
    "decode_ms_per_token": ("step_time", 1e3),
    "total_ms": ("end_to_end_time", 1e3),
    "output_tokens_per_s_per_gpu": ("throughput_per_gpu", 1.0),
    "total_output_tokens_per_s": ("throughput", 1.0),
    "output_tokens_per_s": ("throughput", 1.0),
    "tokens_per_s": ("throughput", 1.0),
}
"""Observed figures that can be predicted: the output, and its scale in the figure's unit."""

LOADED = {
    "itl_p50": ("median_interval", 1e3, "ITL"),
    "itl_p99": ("tail_interval", 1e3, "ITL p99"),
    "output_tokens_per_s_total": ("throughput", 1.0, "throughput, loaded"),
    "average_gpu_power_total": ("board_power", 1.0, "GPU power"),
    "energy_per_output_token": ("board_energy", 1.0, "energy per token"),
    "weights_per_gpu": ("weight_memory", 2.0**-30, "memory"),
    "activation_peak_per_gpu": ("activation_memory", 2.0**-30, "memory"),
    "kv_cache_per_gpu": ("cache_memory", 2.0**-30, "memory"),
    "ttft_p50": ("time_to_first_token", 1e3, "TTFT, loaded"),
    "ttft_mean": ("time_to_first_token", 1e3, "TTFT, loaded"),
    "tpot_p50": ("step_time", 1e3, "TPOT, loaded"),
    "tpot_mean": ("step_time", 1e3, "TPOT, loaded"),
}
"""Figures of loaded servers, by the names of records: the output, its scale, and their group."""


def deployment_of(case: Case) -> Deployment:
    """Read a case; raises `InputError` with what is missing if it cannot be predicted."""
    inputs = case.inputs
    entry = stand_ins.modeled(accelerators.find(_text(inputs, "system", "gpu", "accelerator")))
    rates = accelerators.low_precision_rates(entry)
    if not stand_ins.is_modeled(entry):
        raise InputError(f"no kernel constants for {entry.name}")
    name, model, notes = _model(case)
    engine, more = fields.engine_of(case)
    notes += more
    client, more = fields.client_of(case)
    notes += more
    formats = fields.formats_of(case, engine, name, model, rates)
    release = fields.version_of(case, engine)
    experts = _experts(entry, engine, release, formats, rates, notes)
    length = fields.MEAN_LENGTH if client == "inferencex" else 1.0
    prompt = _number(inputs, "isl", "prompt") * length
    output = _number(inputs, "osl", "output") * length
    mode = str(inputs.get("mode") or "").lower()
    values = dict(model)
    values |= {
        "serving.compute_bits": formats.compute_bits,
        "serving.expert_bits": formats.expert_bits,
        "serving.weight_bytes": formats.weight_bytes,
        "serving.expert_bytes": formats.expert_bytes,
        "serving.kv_bytes": formats.kv_bytes,
        "serving.prompt": prompt,
        "serving.output": max(output, 1.0),
        "serving.group_limit": ALL_HEADS if fields.shares_keys(case, engine) else OLD_GROUP,
        "serving.static": float("static" in mode or parse_count(inputs.get("osl")) == 1),
        "serving.separate": 0.0,
        "serving.pipeline": parse_count(inputs.get("pp")),
        **_placement(inputs, "", notes),
        **experts,
    }
    for setting in ("batch_limit", "memory_share", "prompt_budget"):
        if inputs.get(setting):
            values[f"serving.{setting}"] = float(inputs[setting])
    values |= engines.sampler(engine, release, *inputs.get("sampling", ()))
    values |= _lengths(inputs, prompt, notes)
    if inputs.get("num_prompts"):
        instances = parse_count(inputs.get("instances"))
        values["serving.run_requests"] = parse_count(inputs["num_prompts"]) / instances
    values["serving.concurrency"], more = _concurrency(case, mode)
    notes += more
    deployment = Deployment(
        case, entry.name, engine, client, name, values, _figures(case), notes, release,
        _arrival_rate(inputs),
    )  # fmt: skip
    return _disaggregated(deployment) if mode.startswith("disagg") else deployment


def _lengths(inputs: Mapping[str, Any], prompt: float, notes: list[str]) -> dict[str, float]:
    """What is known of the running requests: how many they are, and how their lengths vary."""
    values = {}
    if inputs.get("assumed_prompt"):
        notes.append(f"prompts of {inputs['assumed_prompt']} are not stated: {prompt:g} tokens")
    if inputs.get("output_share") is not None:
        notes.append("the spread of lengths is not stated: exponential")
        notes.append("requests of the run are not stated: by the rule of its benchmark")
        values = {
            "serving.output_share": float(inputs["output_share"]),
            "serving.prompt_variation": 1.0,
        }
    if inputs.get("arrival_rate"):
        # Mean lengths of chats: `arrivals` drains the run with answers that vary.
        notes.append("the spread of lengths is not stated: exponential")
    if inputs.get("running"):
        notes.append(f"{inputs['running']:g} running requests as measured, not from the KV cache")
        values["serving.batch"] = float(inputs["running"])
    return values


def _text(inputs: Mapping[str, Any], *names: str) -> str:
    for name in names:
        if inputs.get(name):
            return str(inputs[name])
    raise InputError(f"the case states none of {', '.join(names)}")


def _number(inputs: Mapping[str, Any], *names: str) -> float:
    for name in names:
        value = inputs.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]*)?", value):
            return float(value)
    raise InputError(f"the case states none of {', '.join(names)}")


def _experts(
    entry: CatalogEntry, engine: str, release: tuple[int, ...], formats: fields.Formats,
    rates: Mapping[str, float], notes: list[str],
) -> dict[str, float]:  # fmt: skip
    """Constants of the kernels that run the experts' format."""
    calibration = str(entry.facts.get("calibration") or entry.name)
    if not formats.expert_format:
        plain = expert_formats.in_16_bits(entry.name, calibration, engine, release)
        return {} if plain is None else plain.values
    rate = {4: "gpu.rate_4bit", 8: "gpu.rate_8bit"}.get(formats.expert_bits)
    kernels = expert_formats.find(
        entry.name, calibration, engine, formats.expert_format, rates[rate] if rate else 1.0, release,
    )  # fmt: skip
    if kernels is None:
        notes.append(f"experts in {formats.expert_format}: no such kernels were measured")
        return {}
    notes += kernels.notes
    return kernels.values


def _model(case: Case) -> tuple[str, dict[str, float], list[str]]:
    inputs = case.inputs
    if all(isinstance(inputs.get(n), int | float) for n in ("layers", "hidden", "heads", "vocab")):
        name = str(inputs.get("model", case.id))
        gated = any(word in name.lower() for word in ("llama", "mistral", "qwen", "gemma"))
        model = models.from_dimensions(
            layers=inputs["layers"], hidden=inputs["hidden"], heads=inputs["heads"],
            vocabulary=inputs["vocab"], name=name,
            num_key_value_heads=inputs.get("kv_heads"), intermediate_size=inputs.get("ffn"),
            model_type="llama" if gated else "gpt_neox" if inputs.get("ffn") else "",
        )  # fmt: skip
        note = f"{name}: {'gated' if gated else 'plain'} feed-forward by its name"
        return name, model.given, [note, *model.notes]
    entry = models.find(_text(inputs, "model"))
    return entry.name, entry.given, list(entry.notes)


def _placement(inputs: Mapping[str, Any], prefix: str, notes: list[str]) -> dict[str, float]:
    def stated(*names: str) -> int:
        return next(
            (
                parse_count(inputs[prefix + n])
                for n in names
                if inputs.get(prefix + n) not in (None, "")
            ),
            1,
        )

    tensor, replicas = stated("tp", "tp_size"), stated("attention_dp", "attention_dp_size")
    cut, experts = stated("moe_tp", "moe_tp_size"), stated("moe_ep", "moe_ep_size", "ep")
    gpus = tensor * replicas
    if gpus == cut * experts and (cut == experts > 1 or tensor == replicas > 1):
        # The same GPUs counted twice, as tensor ranks and as replicas or groups of experts.
        gpus = cut if cut == experts else tensor
        notes.append(f"{tensor} x {replicas} ranks, experts {cut} x {experts}: {gpus} GPUs")
        replicas, experts = (1 if tensor > 1 else gpus), gpus
    elif cut * experts > gpus:
        gpus = cut * experts
        replicas = max(gpus // tensor, 1)
        notes.append(f"{tensor} ranks with experts {cut} x {experts}: attention on {replicas}")
    return {
        "serving.tensor": float(gpus),
        "serving.attention_replicas": float(replicas),
        "serving.expert": float(experts),
    }


def _concurrency(case: Case, mode: str) -> tuple[float, list[str]]:
    inputs = case.inputs
    if inputs.get("arrival_rate"):
        # What an open loop has in flight follows from its server: `arrivals`.
        return UNLIMITED, []
    if "infinite" in mode or "max-throughput" in mode or "saturat" in mode:
        return UNLIMITED, []
    for name in ("concurrency", "batch", "batch_size"):
        if isinstance(inputs.get(name), float):
            # The mean of a server's batches.
            return max(float(inputs[name]), 1.0), []
        if inputs.get(name):
            return float(parse_count(inputs[name])), []
    return 1.0, ["no batch is stated: one request"]


def _arrival_rate(inputs: Mapping[str, Any]) -> float | None:
    """Of the requests that an open loop sends, those of one of its servers; None where what is in flight is stated."""
    if not inputs.get("arrival_rate"):
        return None
    return _number(inputs, "arrival_rate") / parse_count(inputs.get("instances"))


def _disaggregated(deployment: Deployment) -> Deployment:
    """Disaggregated prefill and decode, with requests spread over the workers."""
    inputs, notes = deployment.case.inputs, list(deployment.notes)
    workers = parse_count(inputs.get("decode_num_workers"), 0)
    if not workers:
        workers = 3
        notes.append("decode workers are not stated: 3, the median of those that are")
    values = deployment.values | _placement(inputs, "decode_", notes) | {"serving.separate": 1.0}
    values["serving.concurrency"] = max(deployment.values["serving.concurrency"] / workers, 1.0)
    prompts = parse_count(inputs.get("prefill_num_workers"), 1)
    prompt_values = (
        deployment.values | _placement(inputs, "prefill_", []) | {"serving.separate": 1.0}
    )
    prompt_values["serving.concurrency"] = max(
        deployment.values["serving.concurrency"] / prompts, 1.0
    )
    return replace(deployment, values=values, prompt_values=prompt_values, notes=notes)


def _figures(case: Case) -> list[ObservedFigure]:
    figures = []
    for name, value in case.observed.items():
        if name in LOADED and isinstance(value, int | float):
            variable, scale, group = LOADED[name]
            if variable == "throughput":
                scale *= parse_count(case.inputs.get("instances"))
            unit = case.units.get(name, "")
            figures.append(ObservedFigure(name, unit, float(value), variable, scale, group))
            continue
        known = QUANTITIES.get(name)
        if known is None or not isinstance(value, int | float) or isinstance(value, bool):
            continue
        unit = name.rpartition("_")[2] if name.endswith("_ms") else "token/s"
        if name == "decode_ms_per_token":
            unit = "ms"
        figures.append(ObservedFigure(name, unit, float(value), *known))
    return figures
