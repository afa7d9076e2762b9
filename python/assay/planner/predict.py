"""`predict_graph`: what one step of a model should be on some hardware, as an engine runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from assay.errors import MissingInputsError
from assay.planner import evaluation as e
from assay.planner.graph import Figure, Graph, Node
from assay.planner.layout import Layout
from assay.planner.operations import Load, after_layers, before_layers, vllm_layer
from assay.planner.prices import cooled, rented
from assay.planner.specs import BatchConfig, HardwareSpec, LayerSpec, ModelSpec

_NANOSECONDS: Final = 1e9
_INTERVALS: Final = (
    "serving.step.wall_time", "serving.step.tokens_per_second", "serving.step.time_to_first_token",
)  # fmt: skip


def predict_graph(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig | None = None
) -> Graph:
    """The nodes of one step with floor and interval, and the figures of the whole.

    >>> from assay.planner import BatchConfig, hardware_spec, model_spec
    >>> graph = predict_graph(model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig())
    >>> graph.totals["floor"].expected < graph.totals["step"].expected
    True
    """
    batch = batch or BatchConfig()
    e.check(batch)
    phase = "decode" if not batch.prefill_tokens else "mixed" if batch.sequences else "prefill"
    load = _load(batch)
    layers = model.layers or _alike(model)
    by_kind = {kind: vllm_layer(model, kind, load) for kind in dict.fromkeys(layers)}
    first, last = before_layers(model), after_layers(model, load)
    outer = sum(one.kernels for one in (*first, *last) if one.items == ("outer",))
    launches = sum(one.launches for kind in layers for one in by_kind[kind])
    launches += sum(one.launches for one in (*first, *last))
    given, notes = e.inputs(model, hardware, batch, launches, outer)
    values, first_token = e.evaluate([given, _first_token(given, batch)], e.OUTPUTS)
    layout = Layout(given, values, phase, load.tokens, _family_spreads(hardware, batch.engine))
    layout.add(first, None, beside=last)
    for index, kind in enumerate(layers):
        layout.add(by_kind[kind], index)
    layout.add(last, None, beside=first)
    nodes = (*layout.nodes, *_host(values, batch, layout.nodes[-1].name, phase))
    totals, missing, priced = _totals(given, values, first_token, hardware, batch)
    degradations = (
        *model.notes, *hardware.notes, *notes, *priced, *_does_not_fit(values, batch),
    )  # fmt: skip
    return Graph(
        nodes, totals, model.name, hardware.name, batch.engine, asdict(batch), missing,
        tuple(dict.fromkeys(degradations)),
    )  # fmt: skip


def _load(batch: BatchConfig) -> Load:
    decoding = batch.sequences / batch.pipeline * (batch.speculative_tokens + 1)
    return Load(decoding + batch.prefill_tokens, batch.tensor, batch.expert)


def _alike(model: ModelSpec) -> tuple[LayerSpec, ...]:
    """Layers of a model that states none: as its shares say, the kinds one after another."""
    from assay.catalog import layer_kinds

    shapes = model.architecture
    kinds = zip(
        layer_kinds.mixers(shapes, {}), layer_kinds.mlps(shapes, {}),
        layer_kinds.windowed(shapes, {}), strict=True,
    )  # fmt: skip
    return tuple(LayerSpec(*kind) for kind in kinds)


def _first_token(given: Mapping[str, float], batch: BatchConfig) -> dict[str, float]:
    """The step that a new request of this context waits for: a chunk of its prompt."""
    if batch.prefill_tokens:
        return dict(given)
    prompt = max(e.mean_context(batch), 1.0)
    chunk = min(prompt, max(given[e.PROMPT_BUDGET] - batch.sequences, 1.0))
    return {**given, f"{e.STEP}prefill_tokens": chunk, f"{e.STEP}prompt": prompt}


def _family_spreads(hardware: HardwareSpec, engine: str) -> dict[str, float]:
    """Log spreads of engine constants that scale a family of kernels; "" is every kernel's."""
    own = e.engine_constants(engine).log_spreads
    return {
        "": hardware.log_spreads.get("serving.model_error.transfer", 0.0),
        "passes": own.get("serving.layer_kernels", 0.0),
        "routing": own.get("serving.expert_kernels", 0.0),
        "outer": own.get("serving.host_time", 0.0),
        "decode_full": own.get("serving.decode_slowdown", 0.0),
        "experts_up": own.get("serving.expert_slowdown", 0.0),
        "experts_down": own.get("serving.expert_slowdown", 0.0),
        "attention_sum": own.get("serving.reduction_wait", 0.0),
        "feed_forward_sum": own.get("serving.reduction_wait", 0.0),
    }


def _host(values: Mapping[str, float], batch: BatchConfig, last: str, phase: str) -> list[Node]:
    """What the host does while the device waits, and without graphs its launches."""
    spread = e.engine_constants(batch.engine).log_spreads
    waiting = values[f"{e.STEP}host_waiting_time"]
    lo, hi = e.Spread(spread.get("serving.host_time", 0.0)).ends(waiting)
    nodes = [
        Node(
            "host", "prepare_inputs", None, phase, 0.0, 0.0, 0.0, 0.0, waiting * _NANOSECONDS,
            lo * _NANOSECONDS, hi * _NANOSECONDS, "host", -1, (last,),
            (f"{e.STEP}host_waiting_time",), 0,
        )
    ]  # fmt: skip
    if not batch.cuda_graphs:
        launch = values[f"{e.STEP}launch_time"]
        lo, hi = e.Spread(spread.get("serving.launch_time", 0.0)).ends(launch)
        nodes.append(
            Node(
                "host.launch", "prepare_inputs", None, phase, 0.0, 0.0, 0.0, 0.0,
                launch * _NANOSECONDS, lo * _NANOSECONDS, hi * _NANOSECONDS, "launch", -1, (),
                (f"{e.STEP}launch_time",), 0,
            )
        )  # fmt: skip
    return nodes


def _totals(
    given: Mapping[str, float], values: Mapping[str, float], first_token: Mapping[str, float],
    hardware: HardwareSpec, batch: BatchConfig,
) -> tuple[dict[str, Figure], dict[str, str], list[str]]:  # fmt: skip
    spread = e.spreads(given, hardware, batch.engine, _INTERVALS)
    step, floor = values[f"{e.STEP}wall_time"], values[f"{e.STEP}floor_time"]
    lo, hi = spread[_INTERVALS[0]].ends(step, floor)
    ns = _NANOSECONDS
    totals = {
        "step": Figure(step * ns, lo * ns, hi * ns, "ns"),
        "floor": Figure(floor * ns, floor * ns, floor * ns, "ns"),
    }
    missing: dict[str, str] = {}
    wait = first_token[f"{e.STEP}time_to_first_token"]
    ends = _first_token_spread(given, hardware, batch).ends(wait)
    totals["ttft"] = Figure(wait * ns, ends[0] * ns, ends[1] * ns, "ns")
    reason = _no_rate(batch)
    if reason:
        missing = dict.fromkeys(
            ("tokens_per_second", "joules_per_token", "dollars_per_token"), reason
        )
        return totals, missing, []
    rate = values[f"{e.STEP}tokens_per_second"]
    least, most = spread[_INTERVALS[1]].ends(rate)
    ceiling = rate * step / floor if floor else math.inf
    totals["tokens_per_second"] = Figure(rate, least, min(most, ceiling), "token/s")
    notes = _per_token(given, hardware, totals, missing, step=(step, lo, hi))
    return totals, missing, notes


def _first_token_spread(
    given: Mapping[str, float], hardware: HardwareSpec, batch: BatchConfig
) -> e.Spread:
    point = _first_token(given, batch)
    return e.spreads(point, hardware, batch.engine, _INTERVALS)[_INTERVALS[2]]


def _no_rate(batch: BatchConfig) -> str:
    if not batch.sequences:
        return "no sequence decodes in this step"
    if batch.speculative_tokens and batch.acceptance is None:
        return "the probability that a speculated token is accepted is not given"
    return ""


def _per_token(
    given: Mapping[str, float], hardware: HardwareSpec, totals: dict[str, Figure],
    missing: dict[str, str], *, step: tuple[float, float, float],
) -> list[str]:  # fmt: skip
    """Energy and cost of a token, where power and a price are known."""
    time, lo, hi = step
    notes: list[str] = []
    for name, outputs, unit, source in (
        ("joules_per_token", e.POWERED, "J/token", cooled(hardware)),
        ("dollars_per_token", e.PRICED, "USD/token", rented(hardware)),
    ):
        values, note = source
        try:
            variants = e.POWER_VARIANTS if name == "joules_per_token" else {}
            found = e.evaluate([{**given, **values}], outputs, variants)[0][outputs[0]]
        except MissingInputsError as error:
            missing[name] = e.missing_names(error)
            continue
        # Energy and rent follow the time of the step; the error of the power model is not in it.
        totals[name] = Figure(found, found * lo / time, found * hi / time, unit)
        if note:
            notes.append(note)
    return notes


def _does_not_fit(values: Mapping[str, float], batch: BatchConfig) -> list[str]:
    weights, capacity = values["serving.weight_memory"], values["gpu.memory.capacity"]
    cached = batch.sequences * e.mean_context(batch) * values["serving.kv.bytes_per_token"]
    needed = weights + cached / (batch.tensor * batch.pipeline)
    if needed <= capacity:
        return []
    return [
        f"it does not fit: weights and KV cache take {needed / 1e9:.1f} GB a GPU of "
        f"{capacity / 1e9:.1f} GB"
    ]
