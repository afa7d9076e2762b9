"""Keys of the `--json` output of every command."""

from typing import Any

import pytest

PRESET = ("--preset", "dense_training_cost_fixture")
TEXT, NUMBER, COUNT, FLAG = str, (int, float), int, bool
MAYBE_TEXT, MAYBE_NUMBER = (str, type(None)), (int, float, type(None))


class Each:
    """A list whose every member has one shape; `some` demands that there is a member."""

    def __init__(self, shape: Any, *, some: bool = True) -> None:
        self.shape = shape
        self.some = some


class Keyed:
    """A mapping from names to values of one shape."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def check(data: Any, shape: Any, where: str) -> None:
    if isinstance(shape, dict):
        assert list(data) == list(shape), where
        for key, part in shape.items():
            check(data[key], part, f"{where}.{key}")
    elif isinstance(shape, Each):
        assert isinstance(data, list), where
        assert data or not shape.some, f"{where} is empty"
        for position, item in enumerate(data):
            check(item, shape.shape, f"{where}[{position}]")
    elif isinstance(shape, Keyed):
        assert isinstance(data, dict), where
        for key, item in data.items():
            check(item, shape.shape, f"{where}.{key}")
    else:
        # A truth value is an integer to Python, but not to a reader of JSON.
        assert shape is FLAG or not isinstance(data, bool), where
        assert isinstance(data, shape), f"{where} is {data!r}"


LATENCY = {"mean": NUMBER, "p50": NUMBER, "p90": NUMBER, "p99": NUMBER}
OPEN_LOOP = {
    "rate": NUMBER,
    "running": NUMBER,
    "first_token": LATENCY,
    "output_token": LATENCY,
    "token_gap": LATENCY,
    "end_to_end": LATENCY,
    "goodput": NUMBER,
}
_LEVELS = {level: {"value": NUMBER, "lo": NUMBER, "hi": NUMBER} for level in ("p50", "p90", "p99")}
PLANNED_ROW = {
    "gpu": TEXT, "layout": TEXT, "weight_dtype": TEXT, "engine": TEXT, "max_running": COUNT,
    "replicas": COUNT, "gpus": COUNT, "usd_per_hour": NUMBER, "watts": NUMBER, "risk": NUMBER,
    "headroom": NUMBER, "ttft_p50": NUMBER, "tpot_p50": NUMBER,
}  # fmt: skip
PLANNED = {
    "gpu": TEXT, "layout": TEXT, "weight_dtype": TEXT, "engine": TEXT, "max_running": COUNT,
    "replica_gpus": COUNT, "replicas": COUNT, "spare": COUNT, "gpus": COUNT,
    "schedule": Each({
        "start": NUMBER, "seconds": NUMBER, "rate": NUMBER, "busiest": NUMBER, "replicas": COUNT, "watts": NUMBER,
    }),
    "rate_each": NUMBER, "running": NUMBER, "headroom": NUMBER, "binds": TEXT, "risk": NUMBER,
    "prefix_hits": NUMBER, "usd_per_hour": NUMBER, "usd_per_month": NUMBER,
    "usd_per_request": NUMBER, "usd_per_million_input": NUMBER, "usd_per_million_output": NUMBER,
    "watts": NUMBER, "peak_watts": NUMBER, "rated_watts": NUMBER, "joules_per_token": NUMBER,
    "kilograms_per_hour": NUMBER, "terms": TEXT, "starts": COUNT, "replica_usd_per_hour": NUMBER,
    "latencies": {"first_token": _LEVELS, "output_token": _LEVELS, "end_to_end": _LEVELS},
    "attained": {"value": NUMBER, "lo": NUMBER, "hi": NUMBER},
}  # fmt: skip
FIGURE = {"expected": NUMBER, "lo": NUMBER, "hi": NUMBER, "unit": TEXT}
NODE = {
    "name": TEXT, "operation": TEXT, "layer": (int, type(None)), "phase": TEXT, "flops": NUMBER,
    "bytes_read": NUMBER, "bytes_written": NUMBER, "floor_ns": NUMBER, "expected_ns": NUMBER,
    "lo_ns": NUMBER, "hi_ns": NUMBER, "bound": TEXT, "stream": COUNT,
    "dependencies": Each(TEXT, some=False), "equations": Each(TEXT), "kernels": COUNT,
}  # fmt: skip
KIND = {"kind": TEXT, "files": COUNT, "bytes": COUNT, "path": TEXT}
MISSING = {
    "name": TEXT, "unit": TEXT, "family": TEXT, "meaning": TEXT, "boundary": MAYBE_TEXT,
    "needed_by": Each(TEXT),
}  # fmt: skip
VERDICT = {
    "name": TEXT, "status": TEXT, "text": TEXT, "meaning": TEXT,
    "missing": Each(TEXT, some=False), "reason": TEXT,
    "values": Each({"name": TEXT, "value": NUMBER, "unit": TEXT}, some=False),
}  # fmt: skip
UNDETERMINED = {"count": COUNT, "by_layer": Keyed(Each(TEXT))}
"""Constraints that the inputs leave open."""
CONFLICT = {"name": TEXT, "given": NUMBER, "computed": NUMBER, "unit": TEXT, "relation": TEXT}
SWITCH = {"variable": TEXT, "left": TEXT, "used": TEXT, "condition": TEXT}
STEP = {
    "name": TEXT, "symbol": TEXT, "value": NUMBER, "unit": TEXT, "relation": MAYBE_TEXT,
    "kind": TEXT, "text": MAYBE_TEXT, "inputs": Each(TEXT, some=False), "source": TEXT,
}  # fmt: skip
RESOLUTION = {
    "target": TEXT, "value": MAYBE_NUMBER, "unit": TEXT, "lo": MAYBE_NUMBER, "hi": MAYBE_NUMBER,
    "missing": Each(MISSING, some=False), "constraints": Each(VERDICT, some=False),
    "undetermined": UNDETERMINED, "validity": Each(VERDICT, some=False),
    "conflicts": Each(CONFLICT, some=False), "switches": Each(SWITCH, some=False),
    "degradations": Each(TEXT, some=False),
}  # fmt: skip
PROVENANCE = {
    "name": TEXT, "depth": COUNT, "symbol": TEXT, "meaning": TEXT, "value": MAYBE_NUMBER,
    "unit": TEXT, "status": TEXT, "relation": MAYBE_TEXT, "text": MAYBE_TEXT, "source": TEXT,
    "block": MAYBE_TEXT, "parts": TEXT,
}  # fmt: skip
VARIABLE = {
    "name": TEXT, "kind": TEXT, "role": TEXT, "symbol": TEXT, "meaning": TEXT, "unit": TEXT,
    "display": TEXT, "lower": MAYBE_NUMBER, "upper": MAYBE_NUMBER, "value": MAYBE_NUMBER,
    "scope": TEXT, "family": TEXT, "boundary": MAYBE_TEXT, "nature": TEXT, "target": FLAG,
    "library": FLAG, "reference": TEXT,
}  # fmt: skip
RELATION = {
    "name": TEXT, "kind": TEXT, "variable": MAYBE_TEXT, "text": TEXT, "inputs": Each(TEXT, some=False),
    "validity": MAYBE_TEXT, "meaning": TEXT, "options": dict, "scope": TEXT, "library": FLAG,
    "reference": TEXT,
}  # fmt: skip
FORMULA = {
    "latex": TEXT, "unit_check": {"agrees": FLAG, "unit": MAYBE_TEXT, "reason": TEXT},
}  # fmt: skip
RECEIPT_LINE = {
    "name": TEXT, "symbol": TEXT, "meaning": TEXT, "value": MAYBE_NUMBER, "unit": TEXT,
    "status": TEXT, "relation": MAYBE_TEXT, "text": MAYBE_TEXT, "source": TEXT,
    "block": MAYBE_TEXT, "lo": MAYBE_NUMBER, "hi": MAYBE_NUMBER, "figure": TEXT, "interval": TEXT,
    "scope": TEXT, "family": TEXT, "share": MAYBE_NUMBER,
    "inputs": Each({"name": TEXT, "share": MAYBE_NUMBER}, some=False),
}  # fmt: skip
CROSSING = {"source": TEXT, "target": TEXT, "edges": COUNT, "variables": Each(TEXT)}
SHOWN = {"name": TEXT, "value": NUMBER, "unit": MAYBE_TEXT}
OUTCOME = {
    "label": TEXT, "target": TEXT, "status": TEXT, "issues": Each(TEXT, some=False),
}  # fmt: skip
STATS = (
    "systems", "variables", "constants", "relations", "distinct_relations", "template_copies",
    "root_inputs", "leaves", "cycles", "families", "unit_checked", "variables_referenced",
    "relations_referenced", "reachable", "library",
)  # fmt: skip
COVERAGE = {"cited": COUNT, "fitted": COUNT, "definition": COUNT, "unsourced": COUNT}
DEBT = {
    "name": TEXT, "boundary": TEXT, "dependents": COUNT, "targets": Each(TEXT, some=False),
    "unit": TEXT, "meaning": TEXT, "has_reference": FLAG, "members": Each(TEXT, some=False),
    "variance_share": MAYBE_NUMBER, "first_order_share": MAYBE_NUMBER,
    "share_half_width": MAYBE_NUMBER, "note": TEXT, "given": Each(TEXT),
}  # fmt: skip

REPORT = {
    "preset": TEXT,
    "ok": COUNT,
    "of": COUNT,
    "targets": Each(
        {
            "label": TEXT,
            "target": TEXT,
            "status": TEXT,
            "value": MAYBE_NUMBER,
            "unit": MAYBE_TEXT,
            "lo": MAYBE_NUMBER,
            "hi": MAYBE_NUMBER,
            "issues": Each(TEXT, some=False),
            "missing": Each(MISSING, some=False),
            "constraints": Each(VERDICT, some=False),
            "conflicts": Each(CONFLICT, some=False),
            "assumed_share": MAYBE_NUMBER,
            "variance_by_kind": Keyed(NUMBER),
            "remarks": Each(TEXT, some=False),
        }
    ),
    "missing_families": Keyed(Each(TEXT)),
    "violated": Each(TEXT, some=False),
    "notes": Each(TEXT, some=False),
}

ANSWERS: list[tuple[tuple[str, ...], Any]] = [
    (("stats",), dict.fromkeys(STATS, COUNT)),
    (
        ("verify",),
        {
            "profile": TEXT,
            "ok": FLAG,
            "checks": Each(
                {
                    "name": TEXT,
                    "meaning": TEXT,
                    "status": TEXT,
                    "count": COUNT,
                    "details": Each(TEXT, some=False),
                }
            ),
        },
    ),
    (
        ("audit",),
        {
            "referenced": {"relations": NUMBER, "variables": NUMBER},
            "cited": {"relations": NUMBER, "variables": NUMBER},
            "coverage": {"relations": COVERAGE, "variables": COVERAGE},
            "relation_kinds": Keyed(COVERAGE),
            "unreached_relations": Each(TEXT, some=False),
            "unreached_roots": Each(TEXT, some=False),
            "duplicates": Each(Each(TEXT), some=False),
            "similar_variables": Each(Each(TEXT), some=False),
            "weak_references": Each({"name": TEXT, "of": TEXT, "why": TEXT}, some=False),
            "roots_by_boundary": Keyed(Each(TEXT)),
            "unused_constants": Each(TEXT, some=False),
        },
    ),
    (("list",), Each(VARIABLE)),
    (("list", "--relations"), Each(RELATION)),
    (
        ("list", "--presets"),
        Each(
            {
                "name": TEXT,
                "description": TEXT,
                "values": COUNT,
                "targets": Each({"label": TEXT, "variable": TEXT}),
            }
        ),
    ),
    (
        ("show", "logic.gate.delay"),
        {
            **VARIABLE,
            "block": MAYBE_TEXT,
            "defined_by": Each({**RELATION, **FORMULA}),
            "used_by": Each(TEXT, some=False),
            "constraints": Each(RELATION),
        },
    ),
    (("show", "logic.clock.timing"), {**RELATION, **FORMULA, "variables": Each(VARIABLE)}),
    (
        ("receipt", "econ.cost.per_token", *PRESET),
        {**RESOLUTION, "lines": Each(RECEIPT_LINE), "notes": Each(TEXT, some=False)},
    ),
    (
        ("atlas", "--target", "thermal.dc.pue", *PRESET),
        {
            "layers": Each(
                {
                    "name": TEXT,
                    "meaning": TEXT,
                    "variables": COUNT,
                    "constants": COUNT,
                    "computed": COUNT,
                    "roots": Keyed(COUNT),
                    "relations": COUNT,
                    "constraints": COUNT,
                    "references": Keyed(COUNT),
                    "targets": Each(TEXT, some=False),
                }
            ),
            "crossings": Each(CROSSING),
            "pressure": {
                "target": TEXT,
                "layers": Each(
                    {
                        "name": TEXT,
                        "variables": COUNT,
                        "roots": COUNT,
                        "by_distance": Each(COUNT),
                        "given": COUNT,
                        "missing": COUNT,
                    }
                ),
                "crossings": Each(CROSSING),
            },
        },
    ),
    (
        ("root", "econ.serving.load"),
        {
            "name": TEXT,
            "symbol": TEXT,
            "meaning": TEXT,
            "unit": TEXT,
            "scope": TEXT,
            "family": TEXT,
            "boundary": TEXT,
            "dependents": COUNT,
            "targets": Each(TEXT),
            "used_by": Each(TEXT),
            "presets": Each({"preset": TEXT, "text": TEXT, "kind": TEXT, "source": TEXT}),
            "catalog": Each({"group": TEXT, "entries": Each(TEXT)}, some=False),
            "steps": Each(TEXT),
        },
    ),
    (
        ("walk", "quark", "lithography.power"),
        {
            "from": TEXT,
            "to": TEXT,
            "elasticity": NUMBER,
            "total_elasticity": MAYBE_NUMBER,
            "layers": Each(TEXT),
            "variants": dict,
            "steps": Each(
                {
                    "variable": TEXT,
                    "symbol": TEXT,
                    "meaning": TEXT,
                    "layer": TEXT,
                    "value": MAYBE_NUMBER,
                    "unit": TEXT,
                    "relation": MAYBE_TEXT,
                    "states": MAYBE_TEXT,
                    "elasticity": MAYBE_NUMBER,
                    "carried": MAYBE_NUMBER,
                }
            ),
            "command": TEXT,
            "notes": Each(TEXT),
        },
    ),
    (
        ("cone", "thermal.dc.pue", "--brief"),
        {
            "variable": TEXT,
            "direction": TEXT,
            "depth": MAYBE_NUMBER,
            "variables": Each(
                {
                    "name": TEXT,
                    "role": TEXT,
                    "symbol": TEXT,
                    "meaning": TEXT,
                    "display": TEXT,
                    "scope": TEXT,
                }
            ),
            "relations": Each(
                {
                    "name": TEXT,
                    "kind": TEXT,
                    "variable": MAYBE_TEXT,
                    "inputs": Each(TEXT, some=False),
                }
            ),
        },
    ),
    (
        ("cone", "thermal.dc.pue"),
        {
            "variable": TEXT,
            "direction": TEXT,
            "depth": MAYBE_NUMBER,
            "variables": Each(VARIABLE),
            "relations": Each(RELATION),
            "edges": Each({"source": TEXT, "target": TEXT, "relation": TEXT}),
        },
    ),
    (
        (
            "diff",
            PRESET[1],
            PRESET[1],
            "--set",
            "gpu.power=600 W/GPU",
            "--target",
            "econ.cost.per_token",
        ),
        {
            "target": TEXT,
            "unit": TEXT,
            "before": NUMBER,
            "after": NUMBER,
            "contributions": Each(
                {
                    "label": TEXT,
                    "amount": NUMBER,
                    "standard_error": NUMBER,
                    "changes": Each(
                        {"name": TEXT, "before": NUMBER, "after": NUMBER, "unit": TEXT}
                    ),
                }
            ),
            "unused": Each(TEXT, some=False),
            "orders": MAYBE_NUMBER,
            "notes": Each(TEXT, some=False),
            "violated_before": Each(TEXT, some=False),
            "violated_after": Each(TEXT, some=False),
        },
    ),
    (
        (
            "pareto",
            "econ.cost.per_token",
            "training.step_time",
            *PRESET,
            "--over",
            "training.gpus=8,16 GPU",
        ),
        {
            "axes": Each(TEXT),
            "targets": Each(TEXT),
            "units": Keyed(TEXT),
            "rows": Each(
                {
                    "training.gpus": NUMBER,
                    "econ.cost.per_token": NUMBER,
                    "training.step_time": NUMBER,
                    "constraints": TEXT,
                    "violated": Each(TEXT, some=False),
                    "missing": Each(TEXT, some=False),
                }
            ),
            "notes": Each(TEXT, some=False),
            "points": COUNT,
            "feasible": COUNT,
            "maximized": Each(TEXT, some=False),
        },
    ),
    (
        ("estimate", "llama-3.1-8b", "h100_sxm", "100B", "texas", "--gpus", "8"),
        {
            "workload": TEXT,
            "tokens": NUMBER,
            "cost_of_all_tokens": MAYBE_NUMBER,
            "cost_of_all_tokens_interval": (list, type(None)),
            "report": REPORT,
            "defaults": Each({"name": TEXT, "value": TEXT, "reason": TEXT}),
        },
    ),
    (
        ("sensitivity", "econ.cost.per_token", *PRESET),
        {
            "target": TEXT,
            "value": NUMBER,
            "unit": TEXT,
            "step": NUMBER,
            "inputs": Each(
                {
                    "input": TEXT,
                    "value": NUMBER,
                    "unit": TEXT,
                    "elasticity": MAYBE_NUMBER,
                    "range": Each(NUMBER),
                    "uncertain": FLAG,
                    "target_at_range": Each(NUMBER),
                }
            ),
            "unmoved": Each(TEXT, some=False),
            "notes": Each(TEXT, some=False),
            "violated": Each(TEXT, some=False),
        },
    ),
    (("resolve", "econ.cost.per_token", *PRESET), {**RESOLUTION, "trace": Each(STEP)}),
    (("resolve", "econ.cost.per_token"), {**RESOLUTION, "trace": Each(STEP, some=False)}),
    (
        (
            "resolve",
            "cluster.gpus",
            "--set",
            "cluster.nodes=1 node",
            "--set",
            "cluster.node.gpus=8 GPU/node",
            "--set",
            "cluster.gpus=9 GPU",
        ),
        {**RESOLUTION, "conflicts": Each(CONFLICT), "trace": Each(STEP), "notes": Each(TEXT)},
    ),
    (
        ("explain", "econ.cost.per_token", *PRESET),
        {
            **RESOLUTION,
            "depth": COUNT,
            "cut": FLAG,
            "provenance": Each(PROVENANCE),
            "targets": Each({"label": TEXT, "target": TEXT, "value": MAYBE_NUMBER, "unit": TEXT}),
        },
    ),
    (
        ("solve", "--unknown", "gpu.power", "--equal", "thermal.dc.power=6 kW", *PRESET),
        {
            "unknowns": Each(SHOWN),
            "required": Each({"name": TEXT, "required": NUMBER, "value": NUMBER, "unit": TEXT}),
            "stages": Each(
                {
                    "unknowns": Each(TEXT),
                    "equations": Each(TEXT),
                    "method": TEXT,
                    "iterations": COUNT,
                    "misfit": NUMBER,
                }
            ),
            "method": TEXT,
            "iterations": COUNT,
            "others": Each(Each(SHOWN), some=False),
            "whole": Each(dict, some=False),
            "constraints": Each(VERDICT, some=False),
            "undetermined": UNDETERMINED,
            "validity": Each(VERDICT, some=False),
            "notes": Each(TEXT, some=False),
        },
    ),
    (
        ("solve", "--unknown", "gpu.power", "--equal", "thermal.dc.power=6 kW"),
        {"missing": Each(MISSING)},
    ),
    (
        ("minimize", "econ.cost.per_token", "--over", "training.gpus=4,8,16 GPU", *PRESET),
        {
            "target": TEXT,
            "value": NUMBER,
            "unit": TEXT,
            "maximized": FLAG,
            "choices": Each(SHOWN),
            "method": TEXT,
            "points": COUNT,
            "evaluated": COUNT,
            "feasible": COUNT,
            "undefined": COUNT,
            "excluded": Keyed(COUNT),
            "binding": Each(
                {
                    "name": TEXT,
                    "text": TEXT,
                    "meaning": TEXT,
                    "gain": MAYBE_NUMBER,
                    "price": MAYBE_NUMBER,
                }
            ),
            "violated": Each(VERDICT, some=False),
            "undetermined": UNDETERMINED,
            "alternatives": Each({"value": NUMBER, "choices": Each(SHOWN)}),
            "notes": Each(TEXT, some=False),
        },
    ),
    (
        ("sweep", "thermal.dc.pue", "--over", "cluster.nodes=1,2 node", *PRESET),
        {
            "axes": Each(TEXT),
            "targets": Each(TEXT),
            "units": Keyed(TEXT),
            "rows": Each(
                {
                    "cluster.nodes": NUMBER,
                    "thermal.dc.pue": MAYBE_NUMBER,
                    "constraints": TEXT,
                    "violated": Each(TEXT, some=False),
                }
            ),
            "violations": Keyed({"condition": TEXT, "rows": Each(COUNT)}),
            "undetermined": UNDETERMINED,
            "notes": Each(TEXT, some=False),
        },
    ),
    (
        ("sweep", "thermal.dc.pue", "--over", "cluster.nodes=1,2 node", "--summary", *PRESET),
        {
            "axes": Each(TEXT),
            "targets": Each(TEXT),
            "units": Keyed(TEXT),
            "points": COUNT,
            "undefined": COUNT,
            "satisfying": COUNT,
            "summary": Keyed(
                {
                    "defined": COUNT,
                    "mean": NUMBER,
                    "least": {"value": NUMBER, "at": Keyed(NUMBER)},
                    "most": {"value": NUMBER, "at": Keyed(NUMBER)},
                    "least_satisfying": (dict, type(None)),
                    "most_satisfying": (dict, type(None)),
                    "sha256": TEXT,
                }
            ),
            "violations": Keyed({"condition": TEXT, "points": COUNT}),
            "undetermined": UNDETERMINED,
            "notes": Each(TEXT, some=False),
        },
    ),
    (
        ("predict", "--model", "llama-3.1-8b", "--gpu", "h200"),
        {
            "model": TEXT,
            "hardware": TEXT,
            "engine": TEXT,
            "batch": dict,
            "totals": Keyed(FIGURE),
            "missing": Keyed(TEXT),
            "degradations": Each(TEXT),
            "rent": TEXT,
            "nodes": Each(NODE),
            "operations": Each(
                {
                    "operation": TEXT,
                    "nodes": COUNT,
                    "expected_ns": NUMBER,
                    "lo_ns": NUMBER,
                    "hi_ns": NUMBER,
                    "floor_ns": NUMBER,
                    "bytes": NUMBER,
                    "flops": NUMBER,
                    "bound": TEXT,
                    "stream": COUNT,
                }
            ),
            "notes": Each(TEXT),
        },
    ),
    (
        ("predict-load", "--model", "llama-3.1-8b", "--gpu", "h200", "--rates", "2,500"),
        {
            "prompt": COUNT,
            "output": COUNT,
            "rates": Each({**OPEN_LOOP, "verdict": TEXT, "lo": OPEN_LOOP, "hi": OPEN_LOOP}),
            "completes": {"rate": NUMBER, "lo": NUMBER, "hi": NUMBER},
            "refused": Each({"rate": NUMBER, "verdict": TEXT, "reason": TEXT}),
        },
    ),
    (
        ("predict-workload", "protein", "--with", "accelerators/l4"),
        {
            **{
                "workload": TEXT,
                "unit": TEXT,
                "units": COUNT,
                "gflop": NUMBER,
                "megabytes": NUMBER,
            },
            **{"serial_steps": NUMBER, "step": TEXT, "launch_s": NUMBER},
            **{"power_limit_w": NUMBER, "drawn_w": NUMBER},
            **{"tflops": NUMBER, "tensor_use": NUMBER, "memory_use": NUMBER},
            "limits": Each({"limit": TEXT, "seconds": NUMBER}),
            **{"bound": TEXT, "seconds": NUMBER, "units_per_second": NUMBER},
            **{"joules_per_unit": NUMBER, "violated": Each(VERDICT, some=False)},
            "notes": Each(TEXT),
        },
    ),
    (
        (
            *("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--tensor", "1,2", "--rate", "9"),
            *("--slo", "ttft=1s,tpot=50ms,p=99%", "--place", "finland:200"),
        ),
        {
            "model": TEXT,
            "traffic": {
                **{"name": TEXT, "requests": COUNT, "seconds": NUMBER, "mean_rate": NUMBER},
                **{"peak_rate": NUMBER, "busiest": type(None)},
                **{"dispersion": NUMBER, "input": LATENCY, "output": LATENCY},
            },
            "objective": TEXT,
            "assumed": Each(TEXT),
            "goal": TEXT,
            "best": PLANNED,
            "second": PLANNED,
            "floors": Each({"gpu": TEXT, "gpus": NUMBER}),
            "options": Each(PLANNED_ROW),
            "front": Each(PLANNED_ROW),
            "refused": Each({"server": TEXT, "reason": TEXT}, some=False),
            "simulation": type(None),
            "places": Each(
                {
                    **{"place": TEXT, "replicas": COUNT, "rated_watts": NUMBER},
                    **{"limit_watts": NUMBER, "usd_per_hour": NUMBER, "kilograms_per_hour": NUMBER},
                }
            ),
            "growth": Each(dict, some=False),
            "notes": Each(TEXT),
        },
    ),
    (
        ("predict", "--model", "llama-3.1-8b", "--gpu", "h200", "--sweep", "batch=1,8"),
        {
            "model": TEXT,
            "batch": dict,
            "seconds": NUMBER,
            "configurations_per_second": NUMBER,
            "settings": Keyed(Each(NUMBER)),
            "step_ns": Each(NUMBER),
            "floor_ns": Each(NUMBER),
            "tokens_per_second": Each(NUMBER),
            "usd_per_million_tokens": Each(NUMBER),
            "notes": Each(TEXT),
        },
    ),
    (
        ("root-debt",),
        {
            "by": TEXT,
            "target": MAYBE_TEXT,
            "families": FLAG,
            "rows": Each(DEBT),
            "layers": Each({"layer": TEXT, "kinds": Keyed(COUNT), "owed": COUNT}),
            "degradations": Each(TEXT, some=False),
        },
    ),
    (
        ("scenario-report", "dense_training_cost_fixture"),
        {"ok": COUNT, "of": COUNT, "reports": Each(REPORT)},
    ),
    (("completion", "bash"), {"shell": TEXT, "script": TEXT}),
    (("mcp",), {"tools": Each({"name": TEXT, "description": TEXT, "input_schema": dict})}),
    (
        ("trace", "capture", "synthetic", "--steps", "2"),
        {
            "path": TEXT,
            "model": TEXT,
            "device": TEXT,
            "batch": COUNT,
            "context": COUNT,
            "steps": COUNT,
            "bytes": COUNT,
            "dropped": COUNT,
            "overhead": {"measured": FLAG, "reason": TEXT, "command": TEXT},
            "degradations": Each(TEXT, some=False),
        },
    ),
    (
        ("trace", "list"),
        {
            "path": TEXT,
            "traces": Each(
                {
                    "name": TEXT,
                    "path": TEXT,
                    "readable": FLAG,
                    "source": MAYBE_TEXT,
                    "engine": MAYBE_TEXT,
                    "model": MAYBE_TEXT,
                    "bytes": COUNT,
                    "modified": TEXT,
                },
                some=False,
            ),
        },
    ),
    (("cache",), {"path": TEXT, "bytes": COUNT, "kinds": Each(KIND)}),
    (
        ("cache", "clear", "points", "--dry-run"),
        {"dry_run": FLAG, "removed": Each(KIND, some=False)},
    ),
    (
        ("ask", "time to first token of Llama 3 8B"),
        {
            "question": TEXT,
            "intent": TEXT,
            "candidates": Each(
                {"name": TEXT, "meaning": TEXT, "unit": TEXT, "score": NUMBER, "words": Each(TEXT)}
            ),
            "entries": Each({"entry": TEXT, "title": TEXT, "words": Each(TEXT)}),
            "presets": Each(TEXT),
            "not_understood": Each(TEXT, some=False),
            "commands": Each(TEXT),
            "assumed": Each(TEXT),
            "answer": {
                "target": TEXT,
                "preset": TEXT,
                "with": Each(TEXT),
                "assign": Each(TEXT, some=False),
                "command": TEXT,
                "value": NUMBER,
                "unit": TEXT,
                "lo": NUMBER,
                "hi": NUMBER,
                "text": TEXT,
                "verdict": MAYBE_TEXT,
                "choice": MAYBE_TEXT,
                "ratio": MAYBE_NUMBER,
                "rows": Each(Each(TEXT), some=False),
                "missing": Each(TEXT, some=False),
                "violated": Each(TEXT, some=False),
                "problem": MAYBE_TEXT,
            },
        },
    ),
    (
        ("config", "serve"),
        {
            "files": Each({"path": TEXT, "exists": FLAG}, some=False),
            "options": Each({"command": TEXT, "option": TEXT, "value": MAYBE_TEXT, "source": TEXT}),
        },
    ),
    (
        ("models",),
        Each(
            {
                "name": TEXT,
                "pulled": FLAG,
                "bytes": COUNT,
                "description": TEXT,
                "license": TEXT,
                "path": TEXT,
            }
        ),
    ),
    (
        ("models", "synthetic"),
        {
            "name": TEXT,
            "path": MAYBE_TEXT,
            "architecture": TEXT,
            "synthetic": FLAG,
            "tensors": COUNT,
            "bytes": COUNT,
            "bytes_by_format": Keyed(COUNT),
            "rope_pairs": TEXT,
            "tokens": COUNT,
            "begin": MAYBE_TEXT,
            "stops": Each(TEXT),
            "chat_template": FLAG,
            "config": dict,
        },
    ),
    (
        ("catalog", "list", "rents"),
        Each({"path": TEXT, "title": TEXT, "aliases": Each(TEXT, some=False), "values": COUNT}),
    ),
    (
        ("catalog", "show", "rents/h800_deepseek"),
        {
            "path": TEXT,
            "title": TEXT,
            "aliases": Each(TEXT, some=False),
            "facts": dict,
            "values": Keyed(
                {"value": TEXT, "source": TEXT, "kind": TEXT, "date": TEXT, "uncertainty": NUMBER}
            ),
        },
    ),
    (
        ("scenario-audit", "dense_training_cost_fixture"),
        {
            "audits": Each(
                {
                    "preset": TEXT,
                    "ok": COUNT,
                    "of": COUNT,
                    "targets": Each(OUTCOME),
                    "values": COUNT,
                    "kinds": {
                        "spec": COUNT,
                        "measured": COUNT,
                        "published": COUNT,
                        "assumed": COUNT,
                    },
                    "pinned": Each(TEXT, some=False),
                    "unused": Each(TEXT, some=False),
                    "declared_ok": COUNT,
                    "declared_of": COUNT,
                    "declared": Each(OUTCOME),
                    "missing_families": Keyed(Each(MISSING)),
                }
            )
        },
    ),
    (
        ("next-work",),
        {
            "preset": MAYBE_TEXT,
            "of": COUNT,
            "items": Each(
                {
                    "kind": TEXT,
                    "name": TEXT,
                    "reason": TEXT,
                    "weight": NUMBER,
                    "dependents": COUNT,
                    "target": MAYBE_TEXT,
                }
            ),
            "layers": Each(
                {"layer": TEXT, "kind": TEXT, "items": COUNT, "weight": NUMBER, "heaviest": TEXT}
            ),
        },
    ),
    (
        ("export", "thermal.dc.pue"),
        {
            "format": TEXT,
            "variables": COUNT,
            "constants": COUNT,
            "relations": COUNT,
            "output": MAYBE_TEXT,
            "bytes": COUNT,
            "text": TEXT,
        },
    ),
]

_ERRORS = {"cases": COUNT, "mape": NUMBER, "median": NUMBER, "p90": NUMBER}
_ROW = {
    "case": TEXT, "suite": TEXT, "quantity": TEXT, "unit": TEXT,
    "observed": NUMBER, "predicted": NUMBER, "lo": NUMBER, "hi": NUMBER,
    "error": NUMBER, "terms": Keyed(NUMBER), "baselines": Keyed(NUMBER),
    "gap": TEXT, "notes": Each(TEXT, some=False),
    "in_sample": FLAG, "held_out": NUMBER, "held_out_lo": MAYBE_NUMBER,
    "held_out_hi": MAYBE_NUMBER, "held_out_error": NUMBER, "source": TEXT,
    "group": TEXT,
}  # fmt: skip
ANSWERS.append(
    (
        ("validate", "--suite", "megatron", "--worst", "1"),
        {
            "groups": Each(
                {
                    "group": TEXT, "figures": COUNT, "sources": COUNT, "shipped": _ERRORS,
                    "in_sample": _ERRORS, "held_out": _ERRORS,
                    "held_out_median_by_source": Keyed(NUMBER), "source_mean": NUMBER,
                    "coverage90": NUMBER, "band95": Each(NUMBER), "bar": NUMBER,
                    "failures": Each(TEXT, some=False),
                }
            ),
            "scores": Each({
                "suite": TEXT, "pool": FLAG, "cases": COUNT, "covered": COUNT, "mape": NUMBER,
                "median": NUMBER, "p90": NUMBER, "coverage90": NUMBER, "in_sample": _ERRORS,
                "held_out": _ERRORS, "held_out_coverage90": NUMBER,
                "in_sample_coverage90": NUMBER, "baselines": Keyed(_ERRORS),
                "rows": Each(
                    _ROW,
                    some=False,
                ),
            }),
            "worst": Each(
                {
                    **_ROW,
                    "term_changes": Each({"name": TEXT, "before": NUMBER, "after": NUMBER}),
                    "changes": Each(
                        {
                            "name": TEXT, "unit": TEXT, "before": NUMBER, "after": NUMBER,
                            "ratio": NUMBER, "factor": MAYBE_NUMBER, "spreads": MAYBE_NUMBER,
                        }
                    ),
                }
            ),
            "leaderboard": Each({
                "group": TEXT, "figures": COUNT, "rank": COUNT, "coverage": NUMBER,
                "entries": Each({
                    "tool": TEXT, "answered": COUNT, "median": MAYBE_NUMBER,
                    "interval_score": MAYBE_NUMBER, "own_median": MAYBE_NUMBER,
                }),
            }),
        },
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "shape"),
    ANSWERS,
    ids=lambda item: " ".join(item[:3]) if isinstance(item, tuple) else "",
)
def test_keys(cli: Any, words: tuple[str, ...], shape: Any) -> None:
    outcome = cli(*words, "--json")
    data = outcome.data
    if isinstance(data, dict) and isinstance(shape, dict) and "notes" not in shape:
        # Any object may have notes, last, where there are some.
        data = dict(data)
        check(data.pop("notes", []), Each(TEXT, some=False), words[0])
        assert list(outcome.data)[: len(data)] == list(data)
    check(data, shape, words[0])
    assert "Traceback" not in outcome.err


def test_every_command_is_listed_here() -> None:
    from assay.cli.app import COMMANDS

    tested = {" ".join(words[:2]) for words, _ in ANSWERS} | {words[0] for words, _ in ANSWERS}
    # Benchmarks take long and are tested in tests/bench; doctor and pull depend on the machine and
    # have separate tests, as calibrate has; the keys of the engine's commands are tested in tests/engine, those of
    # commands of traces, diagnoses, telemetry, runs and load in a test file of each.
    elsewhere = {
        "calibrate",
        "causal-profile",
        "chat",
        "diagnose",
        "doctor",
        "embed",
        "gate",
        "generate",
        "load",
        "perplexity",
        # Its models have to be downloaded; tests/planner/test_speech.py has its keys.
        "predict-speech",
        "pull",
        "rollback",
        "run",
        "report",
        "serve",
        "transcribe",
        "talk",
        "speak",
        # It serves until it is ended; tests/browser reads its address.
        "ui",
        "verify-report",
        "whatif",
    }
    elsewhere |= {
        name
        for name in COMMANDS
        if name.startswith(
            ("jobs ", "trace ", "telemetry ", "runs ", "levers ", "store ", "bench ")
        )
    } - tested
    assert set(COMMANDS) - tested == elsewhere


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ({"a": 1}, {"b": COUNT}),
        ({"a": 1, "b": 2}, {"a": COUNT}),
        ({"a": True}, {"a": COUNT}),
        ({"a": None}, {"a": TEXT}),
        ([], Each(TEXT)),
        ([1], Each(TEXT)),
    ],
)
def test_key_check_refuses_differences(data: Any, shape: Any) -> None:
    with pytest.raises(AssertionError):
        check(data, shape, "here")
