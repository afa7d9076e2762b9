"""Assay: what a GPU workload should do, what it does, and why they differ."""

import importlib
from typing import TYPE_CHECKING, Any

from assay._native import build_info

if TYPE_CHECKING:
    from assay import jit, report
    from assay.diagnose.attribution import attribute
    from assay.diagnose.examination import diagnose_trace
    from assay.diagnose.invariants.checking import check_invariants
    from assay.diagnose.live.session import diagnose_server
    from assay.diagnose.replay.question import what_if
    from assay.diagnose.residuals import residuals
    from assay.engine import Engine, SamplingParams
    from assay.observe.capture import capture
    from assay.observe.diff import diff_traces
    from assay.observe.exporters.exporting import export_trace
    from assay.observe.importers.storing import import_trace
    from assay.observe.store import list_traces
    from assay.observe.structure.summary import list_steps, summarize_trace
    from assay.observe.telemetry import telemetry
    from assay.observe.timeline.showing import show_trace, write_timeline
    from assay.planner.predict import predict_graph
    from assay.planner.questions import predict_load, predict_step, sweep_steps
    from assay.runs.optimize import optimize
    from assay.runtime.graphs import capture_graph

__version__: str = build_info()["version"]

__all__ = [
    "Engine",
    "SamplingParams",
    "__version__",
    "attribute",
    "build_info",
    "capture",
    "capture_graph",
    "check_invariants",
    "diagnose_server",
    "diagnose_trace",
    "diff_traces",
    "export_trace",
    "import_trace",
    "jit",
    "list_steps",
    "list_traces",
    "optimize",
    "predict_graph",
    "predict_load",
    "predict_step",
    "report",
    "residuals",
    "show_trace",
    "summarize_trace",
    "sweep_steps",
    "telemetry",
    "what_if",
    "write_timeline",
]

_ELSEWHERE = {
    "Engine": "assay.engine",
    "SamplingParams": "assay.engine",
    "attribute": "assay.diagnose.attribution",
    "capture": "assay.observe.capture",
    "capture_graph": "assay.runtime.graphs",
    "check_invariants": "assay.diagnose.invariants.checking",
    "diagnose_server": "assay.diagnose.live.session",
    "diagnose_trace": "assay.diagnose.examination",
    "diff_traces": "assay.observe.diff",
    "export_trace": "assay.observe.exporters.exporting",
    "import_trace": "assay.observe.importers.storing",
    "list_steps": "assay.observe.structure.summary",
    "list_traces": "assay.observe.store",
    "optimize": "assay.runs.optimize",
    "predict_graph": "assay.planner.predict",
    "predict_load": "assay.planner.questions",
    "predict_step": "assay.planner.questions",
    "residuals": "assay.diagnose.residuals",
    "show_trace": "assay.observe.timeline.showing",
    "summarize_trace": "assay.observe.structure.summary",
    "sweep_steps": "assay.planner.questions",
    "telemetry": "assay.observe.telemetry",
    "what_if": "assay.diagnose.replay.question",
    "write_timeline": "assay.observe.timeline.showing",
}
"""Names that are imported when they are first used, so that `import assay` stays light."""

_PACKAGES = ("jit", "report")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)
