"""Assay: what a GPU workload should do, what it does, and why they differ."""

import importlib
from typing import TYPE_CHECKING, Any

from assay._native import build_info

if TYPE_CHECKING:
    from assay import jit, report
    from assay.diagnose.attribution import attribute
    from assay.diagnose.invariants.checking import check_invariants
    from assay.diagnose.residuals import residuals
    from assay.engine import Engine, SamplingParams
    from assay.improve.loop.optimize import optimize
    from assay.observe.capture import capture
    from assay.observe.telemetry import telemetry
    from assay.planner.predict import predict_graph
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
    "jit",
    "optimize",
    "predict_graph",
    "report",
    "residuals",
    "telemetry",
]

_ELSEWHERE = {
    "Engine": "assay.engine",
    "SamplingParams": "assay.engine",
    "attribute": "assay.diagnose.attribution",
    "capture": "assay.observe.capture",
    "capture_graph": "assay.runtime.graphs",
    "check_invariants": "assay.diagnose.invariants.checking",
    "optimize": "assay.improve.loop.optimize",
    "predict_graph": "assay.planner.predict",
    "residuals": "assay.diagnose.residuals",
    "telemetry": "assay.observe.telemetry",
}
"""Names that are imported when they are first used, so that `import assay` stays light."""

_PACKAGES = ("jit", "report")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)
