"""What the policy knows of made-up engines, for its tests."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from assay.diagnose.hypothesis import Hypothesis
from assay.diagnose.terms import TERMS, Term, Waterfall
from assay.improve.engines.protocol import EngineDescription
from assay.improve.levers.lever import Candidate, KnobRange, Lever
from assay.improve.policy.known import Known
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Objective, PlannedRequest, Workload

SETTINGS: Mapping[str, Setting] = {
    "threads": 1, "max_batch": 1, "speculation_depth": 0, "graph_buckets": 0,
    "weight_format": "file", "width": 1,
}  # fmt: skip


def description(**changes: Any) -> EngineDescription:
    return EngineDescription(
        **{
            "engine": "planted",
            "release": "1",
            "model": "small",
            "device": "cpu",
            "hardware": {"fingerprint": "abc", "usable_cores": 4},
            "capabilities": frozenset({"cpu-threads", "speculation"}),
            **changes,
        }
    )


def workload(
    concurrency: int | None = 8, metric: str = "output_throughput", **more: Any
) -> Workload:
    request = PlannedRequest(0, "x" * 400, 50)
    better = "lower" if metric.endswith("_ms") else "higher"
    return Workload(
        "made up", "", (request,) * 16, concurrency=concurrency,
        objective=Objective(metric, better), **more,
    )  # fmt: skip


def measurement(**figures: float) -> Measurement:
    return Measurement("made up", 0.0, 1.0, (), figures, "stable", SETTINGS)


def diagnosis(causes: Mapping[str, float], floor: float = 0.2) -> Any:
    """A step of one millisecond, with causes as shares of it."""
    shares = {"floor": floor, "launch_gaps": sum(causes.values())}
    terms = tuple(Term(name, 1e6 * shares.get(name, 0.0), 0.0, 0.0) for name in TERMS)
    found = [
        Hypothesis(name, "", 1e6 * share, 0.0, 0.0, "supported", (), "", ("launch_gaps",))
        for name, share in causes.items()
    ]
    residuals = SimpleNamespace(waterfall=Waterfall(1, 1e6, terms))
    return SimpleNamespace(residuals=residuals, causes=found, graph=SimpleNamespace(batch={}))


def lever(name: str, knob: str, *values: Setting, **more: Any) -> Lever:
    return Lever(name, "planted", "It saves time.", (KnobRange(knob, values),), **more)


def candidate(name: str, knob: str, value: Setting, **more: Any) -> Candidate:
    return Candidate(
        **{
            "name": f"{name}: {knob}={value}",
            "levers": (name,),
            "changes": {knob: value},
            "correctness": "bitwise",
            "safety": "safe",
            "hot": True,
            **more,
        }
    )


def known(**changes: Any) -> Known:
    return Known(
        **{
            "description": description(),
            "settings": SETTINGS,
            "workload": workload(),
            "levers": {},
            **changes,
        }
    )
