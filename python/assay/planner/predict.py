"""`predict_graph`: what one step of a model should be on some hardware, as an engine runs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from assay.planner import evaluation as e
from assay.planner.fit import fit_notes
from assay.planner.graph import Graph, Node
from assay.planner.layout import Layout
from assay.planner.plan import plan_step
from assay.planner.prices import offer_of
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.totals import first_token_batch, whole_step

_NANOSECONDS: Final = 1e9


def predict_graph(
    model: ModelSpec, hardware: HardwareSpec, batch: BatchConfig | None = None
) -> Graph:
    """The nodes of one step with floor and interval, and the figures of the whole.

    >>> from assay.planner import BatchConfig, hardware_spec, model_spec
    >>> graph = predict_graph(model_spec("llama-3.1-8b"), hardware_spec("h200"), BatchConfig())
    >>> graph.totals["floor"].value < graph.totals["step"].value
    True
    """
    batch = batch or BatchConfig()
    e.check(batch, hardware)
    plan = plan_step(model, batch, on_gpu=hardware.is_gpu)
    given, notes = e.inputs(model, hardware, batch, plan)
    later = first_token_batch(batch, given[e.PROMPT_BUDGET])
    later_plan = plan_step(model, later, on_gpu=hardware.is_gpu)
    later_given, _ = e.inputs(model, hardware, later, later_plan)
    values, first_token = e.evaluate([given, later_given], e.OUTPUTS)
    layout = Layout(
        given,
        values,
        plan.phase,
        plan.load.tokens,
        _family_spreads(hardware, batch.engine, has_experts=given["architecture.experts"] > 0),
        kernels_alone=batch.engine == "assay",
    )
    layout.add(plan.first, None, beside=plan.last)
    for index, layer in enumerate(plan.layers):
        layout.add(layer, index)
    layout.add(plan.last, None, beside=plan.first)
    nodes = (*layout.nodes, *_host(values, batch, layout.nodes[-1].name, plan.phase))
    totals, missing, priced = whole_step(given, later_given, values, first_token, hardware, batch)
    degradations = (
        *model.notes, *hardware.notes, *notes, *priced, *fit_notes(model, hardware, batch),
    )  # fmt: skip
    offer = offer_of(hardware) if "dollars_per_token" in totals else None
    return Graph(
        nodes, totals, model.name, hardware.name, batch.engine, asdict(batch), missing,
        tuple(dict.fromkeys(degradations)), "" if offer is None else offer.text,
    )  # fmt: skip


def _family_spreads(hardware: HardwareSpec, engine: str, *, has_experts: bool) -> dict[str, float]:
    """Log spreads of engine constants that scale a family of kernels; "" is every kernel's."""
    own = e.engine_constants(engine).log_spreads
    errors = ("transfer", "experts") if has_experts else ("transfer",)
    spreads = [hardware.log_spreads.get(f"serving.model_error.{name}", 0.0) for name in errors]
    return {
        "": math.hypot(*spreads),
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
