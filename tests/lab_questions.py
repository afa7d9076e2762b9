"""Questions to the page's evaluator, in the form that tests/tape_answers.ts of web/ reads."""

from __future__ import annotations

from typing import Any

TOLERANCE = 1e-9
"""Relative difference between the page and the command line."""

TARGETS = (
    "training.step_time", "training.time_to_train", "training.mfu", "serving.kv.max_concurrency",
    "serving.time_per_output_token", "serving.time_to_first_token", "serving.throughput",
    "serving.goodput", "thermal.dc.pue", "econ.cost.per_output_token", "econ.cost.per_token",
    "econ.job.dc_power", "econ.run.total_cost", "carbon.per_token", "carbon.per_output_token",
)  # fmt: skip


def ask(
    preset: str,
    includes: tuple[str, ...] = (),
    assign: dict[str, float] | None = None,
    forget: tuple[str, ...] = (),
    variants: dict[str, str] | None = None,
    targets: tuple[str, ...] = TARGETS,
) -> dict[str, Any]:
    """A question as the page asks it."""
    return {
        "selection": {
            "preset": preset,
            "with": list(includes),
            "assign": {name: {"value": value} for name, value in (assign or {}).items()},
            "variants": variants or {},
        },
        "forget": list(forget),
        "targets": list(targets),
    }
