"""Assay: what a GPU workload should do, what it does, and why they differ."""

import importlib
from typing import TYPE_CHECKING, Any

from assay._native import build_info

if TYPE_CHECKING:
    from assay import jit, report, xp
    from assay.bench.calibration.storing import calibrate_device
    from assay.catalog.questions import catalog_entries, catalog_entry, probe_host
    from assay.diagnose.attribution import attribute
    from assay.diagnose.delays.engine_profile import profile_engine
    from assay.diagnose.examination import diagnose_trace
    from assay.diagnose.invariants.checking import check_invariants
    from assay.diagnose.live.session import diagnose_server
    from assay.diagnose.replay.question import what_if
    from assay.diagnose.residuals import residuals
    from assay.engine import Engine, SamplingParams
    from assay.improve.levers.library_questions import check_lever_files, list_levers, show_levers
    from assay.load.server_load import find_load, load_server
    from assay.observe.attach.tracing import attach_program, attach_server
    from assay.observe.capture import capture
    from assay.observe.capture.running import capture_trace
    from assay.observe.diff import diff_traces
    from assay.observe.exporters.exporting import export_trace
    from assay.observe.importers.storing import import_trace
    from assay.observe.store import list_traces
    from assay.observe.structure.summary import list_steps, summarize_trace
    from assay.observe.telemetry import telemetry
    from assay.observe.telemetry.recording import record_telemetry
    from assay.observe.timeline.showing import show_trace, write_timeline
    from assay.planner.machine_check import check_machine
    from assay.planner.predict import predict_graph
    from assay.planner.questions import predict_load, predict_step, sweep_steps
    from assay.report.stored import read_report
    from assay.report.verify import verify_report
    from assay.runs.optimize import optimize
    from assay.runs.rollback import roll_back
    from assay.runs.stored import compare_runs, list_runs, show_run
    from assay.runtime.graphs import capture_graph
    from assay.scenario.questions.asking import ask
    from assay.scenario.questions.comparing import diff, sensitivity
    from assay.scenario.questions.estimating import estimate
    from assay.scenario.questions.exporting import export_graph
    from assay.scenario.questions.graph import (
        cone,
        describe,
        list_presets,
        list_relations,
        list_variables,
        stats,
    )
    from assay.scenario.questions.health import audit_model, next_work, root_debt, verify_model
    from assay.scenario.questions.layers import atlas, root
    from assay.scenario.questions.minimizing import minimize
    from assay.scenario.questions.receipts import receipt
    from assay.scenario.questions.reporting import scenario_audit, scenario_report
    from assay.scenario.questions.resolving import explain, resolve
    from assay.scenario.questions.solving import solve
    from assay.scenario.questions.sweeping import pareto, sweep
    from assay.validate.questions import score_cases

__version__: str = build_info()["version"]

__all__ = [
    "Engine",
    "SamplingParams",
    "__version__",
    "ask",
    "atlas",
    "attach_program",
    "attach_server",
    "attribute",
    "audit_model",
    "build_info",
    "calibrate_device",
    "capture",
    "capture_graph",
    "capture_trace",
    "catalog_entries",
    "catalog_entry",
    "check_invariants",
    "check_lever_files",
    "check_machine",
    "compare_runs",
    "cone",
    "describe",
    "diagnose_server",
    "diagnose_trace",
    "diff",
    "diff_traces",
    "estimate",
    "explain",
    "export_graph",
    "export_trace",
    "find_load",
    "import_trace",
    "jit",
    "list_levers",
    "list_presets",
    "list_relations",
    "list_runs",
    "list_steps",
    "list_traces",
    "list_variables",
    "load_server",
    "minimize",
    "next_work",
    "optimize",
    "pareto",
    "predict_graph",
    "predict_load",
    "predict_step",
    "probe_host",
    "profile_engine",
    "read_report",
    "receipt",
    "record_telemetry",
    "report",
    "residuals",
    "resolve",
    "roll_back",
    "root",
    "root_debt",
    "scenario_audit",
    "scenario_report",
    "score_cases",
    "sensitivity",
    "show_levers",
    "show_run",
    "show_trace",
    "solve",
    "stats",
    "summarize_trace",
    "sweep",
    "sweep_steps",
    "telemetry",
    "verify_model",
    "verify_report",
    "what_if",
    "write_timeline",
    "xp",
]

_ELSEWHERE = {
    "Engine": "assay.engine",
    "SamplingParams": "assay.engine",
    "ask": "assay.scenario.questions.asking",
    "atlas": "assay.scenario.questions.layers",
    "attach_program": "assay.observe.attach.tracing",
    "attach_server": "assay.observe.attach.tracing",
    "attribute": "assay.diagnose.attribution",
    "audit_model": "assay.scenario.questions.health",
    "calibrate_device": "assay.bench.calibration.storing",
    "capture": "assay.observe.capture",
    "capture_graph": "assay.runtime.graphs",
    "capture_trace": "assay.observe.capture.running",
    "catalog_entries": "assay.catalog.questions",
    "catalog_entry": "assay.catalog.questions",
    "check_invariants": "assay.diagnose.invariants.checking",
    "check_machine": "assay.planner.machine_check",
    "check_lever_files": "assay.improve.levers.library_questions",
    "compare_runs": "assay.runs.stored",
    "cone": "assay.scenario.questions.graph",
    "describe": "assay.scenario.questions.graph",
    "diagnose_server": "assay.diagnose.live.session",
    "diagnose_trace": "assay.diagnose.examination",
    "diff": "assay.scenario.questions.comparing",
    "diff_traces": "assay.observe.diff",
    "estimate": "assay.scenario.questions.estimating",
    "explain": "assay.scenario.questions.resolving",
    "export_graph": "assay.scenario.questions.exporting",
    "export_trace": "assay.observe.exporters.exporting",
    "find_load": "assay.load.server_load",
    "import_trace": "assay.observe.importers.storing",
    "list_levers": "assay.improve.levers.library_questions",
    "list_presets": "assay.scenario.questions.graph",
    "list_relations": "assay.scenario.questions.graph",
    "list_runs": "assay.runs.stored",
    "list_steps": "assay.observe.structure.summary",
    "list_traces": "assay.observe.store",
    "list_variables": "assay.scenario.questions.graph",
    "load_server": "assay.load.server_load",
    "minimize": "assay.scenario.questions.minimizing",
    "next_work": "assay.scenario.questions.health",
    "optimize": "assay.runs.optimize",
    "pareto": "assay.scenario.questions.sweeping",
    "predict_graph": "assay.planner.predict",
    "predict_load": "assay.planner.questions",
    "predict_step": "assay.planner.questions",
    "probe_host": "assay.catalog.questions",
    "profile_engine": "assay.diagnose.delays.engine_profile",
    "read_report": "assay.report.stored",
    "receipt": "assay.scenario.questions.receipts",
    "record_telemetry": "assay.observe.telemetry.recording",
    "residuals": "assay.diagnose.residuals",
    "resolve": "assay.scenario.questions.resolving",
    "roll_back": "assay.runs.rollback",
    "root": "assay.scenario.questions.layers",
    "root_debt": "assay.scenario.questions.health",
    "scenario_audit": "assay.scenario.questions.reporting",
    "scenario_report": "assay.scenario.questions.reporting",
    "score_cases": "assay.validate.questions",
    "sensitivity": "assay.scenario.questions.comparing",
    "show_levers": "assay.improve.levers.library_questions",
    "show_run": "assay.runs.stored",
    "show_trace": "assay.observe.timeline.showing",
    "solve": "assay.scenario.questions.solving",
    "stats": "assay.scenario.questions.graph",
    "summarize_trace": "assay.observe.structure.summary",
    "sweep": "assay.scenario.questions.sweeping",
    "sweep_steps": "assay.planner.questions",
    "telemetry": "assay.observe.telemetry",
    "verify_model": "assay.scenario.questions.health",
    "verify_report": "assay.report.verify",
    "what_if": "assay.diagnose.replay.question",
    "write_timeline": "assay.observe.timeline.showing",
}
"""Names that are imported when they are first used, so that `import assay` stays light."""

_PACKAGES = ("jit", "report", "xp")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)
