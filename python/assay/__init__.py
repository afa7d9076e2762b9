"""Assay: what a GPU workload should do, what it does, and why they differ."""

import importlib
from typing import TYPE_CHECKING, Any

from assay._native import build_info as build_info

if TYPE_CHECKING:
    from assay import jit as jit, report as report, xp as xp
    from assay.asking.answering import ask as ask
    from assay.bench.calibration.storing import calibrate_device as calibrate_device
    from assay.catalog.questions import (
        catalog_entries as catalog_entries,
        catalog_entry as catalog_entry,
        probe_host as probe_host,
    )
    from assay.diagnose.attribution import attribute as attribute
    from assay.diagnose.delays.engine_profile import profile_engine as profile_engine
    from assay.diagnose.examination import diagnose_trace as diagnose_trace
    from assay.diagnose.invariants.checking import check_invariants as check_invariants
    from assay.diagnose.live.session import diagnose_server as diagnose_server
    from assay.diagnose.replay.question import what_if as what_if
    from assay.diagnose.residuals import residuals as residuals
    from assay.engine import Engine as Engine, SamplingParams as SamplingParams
    from assay.engine.core.speaking import speak as speak
    from assay.engine.core.transcription import transcribe as transcribe
    from assay.gating.gate import gate as gate
    from assay.improve.levers.library_questions import (
        check_lever_files as check_lever_files,
        list_levers as list_levers,
        show_levers as show_levers,
    )
    from assay.load.capacity import plan_by_limits as plan_by_limits, plan_capacity as plan_capacity
    from assay.load.server_load import find_load as find_load, load_server as load_server
    from assay.observe.attach.tracing import (
        attach_program as attach_program,
        attach_server as attach_server,
    )
    from assay.observe.capture import capture as capture
    from assay.observe.capture.running import capture_trace as capture_trace
    from assay.observe.diff import diff_traces as diff_traces
    from assay.observe.exporters.exporting import export_trace as export_trace
    from assay.observe.importers.storing import import_trace as import_trace
    from assay.observe.store import list_traces as list_traces
    from assay.observe.structure.summary import (
        list_steps as list_steps,
        summarize_trace as summarize_trace,
    )
    from assay.observe.telemetry import telemetry as telemetry
    from assay.observe.telemetry.recording import record_telemetry as record_telemetry
    from assay.observe.timeline.showing import (
        show_trace as show_trace,
        write_timeline as write_timeline,
    )
    from assay.planner.capacity.training import plan_training as plan_training
    from assay.planner.machine_check import check_machine as check_machine
    from assay.planner.predict import predict_graph as predict_graph
    from assay.planner.questions import (
        predict_load as predict_load,
        predict_step as predict_step,
        sweep_steps as sweep_steps,
    )
    from assay.planner.speech import predict_speech as predict_speech
    from assay.report.stored import read_report as read_report
    from assay.report.verify import verify_report as verify_report
    from assay.runs.optimize import optimize as optimize
    from assay.runs.rollback import roll_back as roll_back
    from assay.runs.stored import (
        compare_runs as compare_runs,
        list_runs as list_runs,
        show_run as show_run,
    )
    from assay.runtime.graphs import capture_graph as capture_graph
    from assay.scenario.questions.comparing import diff as diff, sensitivity as sensitivity
    from assay.scenario.questions.estimating import estimate as estimate
    from assay.scenario.questions.exporting import export_graph as export_graph
    from assay.scenario.questions.graph import (
        cone as cone,
        describe as describe,
        list_presets as list_presets,
        list_relations as list_relations,
        list_variables as list_variables,
        stats as stats,
    )
    from assay.scenario.questions.health import (
        audit_model as audit_model,
        next_work as next_work,
        root_debt as root_debt,
        verify_model as verify_model,
    )
    from assay.scenario.questions.layers import atlas as atlas, root as root
    from assay.scenario.questions.minimizing import minimize as minimize
    from assay.scenario.questions.receipts import receipt as receipt
    from assay.scenario.questions.reporting import (
        scenario_audit as scenario_audit,
        scenario_report as scenario_report,
    )
    from assay.scenario.questions.resolving import explain as explain, resolve as resolve
    from assay.scenario.questions.solving import solve as solve
    from assay.scenario.questions.sweeping import pareto as pareto, sweep as sweep
    from assay.scenario.questions.walking import walk as walk
    from assay.store.finding import store_status as store_status
    from assay.store.questions import find_items as find_items, list_items as list_items
    from assay.validate.questions import score_cases as score_cases
    from assay.workloads.planning import predict_workload as predict_workload

__version__: str = build_info()["version"]

_MODULES = {
    "asking.answering": "ask",
    "bench.calibration.storing": "calibrate_device",
    "catalog.questions": "catalog_entries catalog_entry probe_host",
    "diagnose.attribution": "attribute",
    "diagnose.delays.engine_profile": "profile_engine",
    "diagnose.examination": "diagnose_trace",
    "diagnose.invariants.checking": "check_invariants",
    "diagnose.live.session": "diagnose_server",
    "diagnose.replay.question": "what_if",
    "diagnose.residuals": "residuals",
    "engine": "Engine SamplingParams",
    "engine.core.speaking": "speak",
    "engine.core.transcription": "transcribe",
    "gating.gate": "gate",
    "improve.levers.library_questions": "check_lever_files list_levers show_levers",
    "load.capacity": "plan_by_limits plan_capacity",
    "load.server_load": "find_load load_server",
    "observe.attach.tracing": "attach_program attach_server",
    "observe.capture": "capture",
    "observe.capture.running": "capture_trace",
    "observe.diff": "diff_traces",
    "observe.exporters.exporting": "export_trace",
    "observe.importers.storing": "import_trace",
    "observe.store": "list_traces",
    "observe.structure.summary": "list_steps summarize_trace",
    "observe.telemetry": "telemetry",
    "observe.telemetry.recording": "record_telemetry",
    "observe.timeline.showing": "show_trace write_timeline",
    "planner.capacity.training": "plan_training",
    "planner.machine_check": "check_machine",
    "planner.predict": "predict_graph",
    "planner.questions": "predict_load predict_step sweep_steps",
    "planner.speech": "predict_speech",
    "report.stored": "read_report",
    "report.verify": "verify_report",
    "runs.optimize": "optimize",
    "runs.rollback": "roll_back",
    "runs.stored": "compare_runs list_runs show_run",
    "runtime.graphs": "capture_graph",
    "scenario.questions.comparing": "diff sensitivity",
    "scenario.questions.estimating": "estimate",
    "scenario.questions.exporting": "export_graph",
    "scenario.questions.graph": "cone describe list_presets list_relations list_variables stats",
    "scenario.questions.health": "audit_model next_work root_debt verify_model",
    "scenario.questions.layers": "atlas root",
    "scenario.questions.minimizing": "minimize",
    "scenario.questions.receipts": "receipt",
    "scenario.questions.reporting": "scenario_audit scenario_report",
    "scenario.questions.resolving": "explain resolve",
    "scenario.questions.solving": "solve",
    "scenario.questions.sweeping": "pareto sweep",
    "scenario.questions.walking": "walk",
    "store.finding": "store_status",
    "store.questions": "find_items list_items",
    "validate.questions": "score_cases",
    "workloads.planning": "predict_workload",
}
"""Modules and the public names of each, imported at first use: `import assay` stays light."""

_ELSEWHERE = {
    name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names.split()
}
_PACKAGES = ("jit", "report", "xp")

__all__ = sorted(("__version__", "build_info", *_ELSEWHERE, *_PACKAGES))


def __dir__() -> list[str]:
    """What tab completion shows: the public names, imported or not."""
    return __all__


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)
