"""Text of `assay plan --train`: runs by accelerator, with what is not known."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from assay.cli import styles
from assay.cli.output import Canvas, Line, count, facts
from assay.cli.plan_text import dollars

if TYPE_CHECKING:
    from assay.planner.capacity.training import TrainingOption, TrainingPlan


def training_text(plan: "TrainingPlan", canvas: Canvas) -> Iterator[Line]:
    """The runs by accelerator, the cheapest first, each with its floor."""
    yield from facts(
        [("model", plan.model), ("run", f"{plan.tokens} tokens in {plan.days:g} days")], canvas
    )
    for run in plan.options:
        yield ""
        figures = run.figures
        layout = ", ".join(f"{name} {value:g}" for name, value in run.layout.items())
        yield ((f"{figures['gpus']:,.0f} x {run.gpu}", styles.VALUE), f": {layout}")
        yield from facts(list(_figures(run)), canvas)
    for gpu, reason in plan.refused:
        yield ""
        yield f"{gpu}: {reason}"


def _figures(option: "TrainingOption") -> Iterator[tuple[str, str]]:
    def said(name: str, scale: float, words: str) -> str:
        value = option.figures[name]
        return f"UNKNOWN {words}" if value is None else f"{_digits(value * scale)} {words}"

    yield ("time", f"{said('seconds', 1 / 86400, 'days')}, {said('gpu_hours', 1, 'GPU-hours')}")
    yield (
        "goodput",
        (
            f"{said('goodput', 100, '% of the time')}, {said('mfu', 100, '% MFU')}, "
            f"{said('straggling', 1, 'x the median step by the slowest GPU')}"
        ),
    )
    yield "of which", _losses(option.figures)
    yield (
        "failures",
        (
            f"{said('interruptions', 1, 'interruptions')}, one in {said('mtbf_seconds', 1 / 3600, 'h')}, "
            f"{said('restart_seconds', 1 / 60, 'min to restart')}"
        ),
    )
    yield (
        "checkpoints",
        (
            f"every {said('checkpoint_seconds', 1 / 60, 'min')} (Daly), each stops training for "
            f"{said('stall_seconds', 1, 's')}"
        ),
    )
    spares = option.spare_nodes
    yield (
        "spares",
        (
            f"UNKNOWN: needs {option.unknown['spare_nodes']}"
            if spares is None
            else f"{count(spares, 'node')}, enough 99 % of the time"
        ),
    )
    usd, hours = option.figures["usd"], option.figures["gpu_hours"]
    cost = "UNKNOWN"
    if usd is not None:
        cost = dollars(usd) + (f", {dollars(usd / hours)} a GPU-hour" if hours else "")
    yield "cost", f"{cost}; {option.terms}"
    yield "energy", f"{said('joules', 1 / 3.6e9, 'MWh')}, {said('kilograms', 1e-3, 't CO2e')}"
    floor = option.floor_gpus
    yield (
        "floor",
        (
            "UNKNOWN"
            if floor is None
            else f"{floor:,.4g} GPUs at the data-sheet peak all of the time; no run uses fewer"
        ),
    )


def _losses(figures: "Mapping[str, float | None]") -> str:
    """The shares whose product is the goodput."""
    available, planned, productive = (
        figures[name] for name in ("availability", "planned_share", "productive_share")
    )
    if available is None or planned is None or productive is None:
        return "UNKNOWN"
    parts = {
        "after failures, restarts and checkpoints": available / (1 - planned),
        "after planned stops": 1 - planned,
        "optimizer steps, the rest evaluation": productive,
    }
    return " x ".join(f"{_digits(100 * share)} % {what}" for what, share in parts.items())


def _digits(value: float) -> str:
    """Four digits, or all before the point: 15,234, not 1.523e+04."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
