"""Throughput against interactivity: what the parts of a ramp of rates say, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.diagnose.page.svg import element, picture, text, titled
from assay.improve.loop.record import RunRecord
from assay.intervals import Interval
from assay.load.workloads.ramp import BINS, RAMP
from assay.report import derivations as rules, words
from assay.report.claim import Claim, Evidence
from assay.report.grouping import starting
from assay.report.run_files import EXPERIMENTS, RunFiles, selected

PREFIX: Final = "pareto."
ARMS: Final = (("start", "control"), ("kept", "treatment"))
FIGURES: Final = (
    ("rate", "rate", "requests/s"),
    ("throughput", "output_throughput", "tokens/s"),
    ("interactivity", "tokens_per_s_user", "tokens/s of a user"),
)
_WIDTH, _TALL, _MARGIN = 640.0, 300.0, 60.0

MakeClaim = Callable[..., Iterator[Claim]]


@dataclass(frozen=True, slots=True)
class Point:
    """One part of a ramp with one of the settings."""

    arm: str
    rate: float
    throughput: Interval
    interactivity: Interval
    is_best: bool = True
    """Whether no other point has more of both."""


def pareto_claims(record: RunRecord, files: RunFiles, claim: MakeClaim) -> Iterator[Claim]:
    """Medians of each part of the ramps of the confirmation, or of the start alone."""
    if record.workload.get("arrival") != RAMP or not files.has(EXPERIMENTS):
        return
    measured = record.confirmation or record.noise
    if measured is None:
        return
    arms = ARMS if record.confirmation is not None else ARMS[:1]
    for name, arm in arms:
        select = {"experiment": measured.experiment, "arm": arm}
        rows = [row for row in selected(files.blocks, select) if not row["dropped"]]
        for part in range(1, BINS + 1):
            if not all(f"ramp_{part}_rate" in row["figures"] for row in rows) or not rows:
                continue
            for what, figure, unit in FIGURES:
                yield from claim(
                    f"{PREFIX}{name}.{part}.{what}",
                    f"{what} of the {name} settings in part {part} of the ramps: {{figure}}",
                    unit,
                    Evidence(
                        EXPERIMENTS,
                        rules.FIGURE_MEDIAN,
                        select,
                        {"confidence": record.confidence, "figure": f"ramp_{part}_{figure}"},
                    ),
                    details={"arm": name, "part": part, "what": what},
                )


def points(claims: Sequence[Claim]) -> list[Point]:
    """The points of both settings; those on the front have no other with more of both."""
    parts: dict[tuple[Any, Any], dict[str, Claim]] = {}
    for claim in starting(claims, PREFIX):
        key = claim.details["arm"], claim.details["part"]
        parts.setdefault(key, {})[claim.details["what"]] = claim
    whole = [
        Point(str(arm), rate.value, throughput, interactivity)
        for (arm, _), claimed in parts.items()
        if len(claimed) == len(FIGURES)
        if (rate := claimed["rate"].figure) is not None
        and (throughput := claimed["throughput"].figure) is not None
        and (interactivity := claimed["interactivity"].figure) is not None
    ]
    return [
        Point(
            point.arm,
            point.rate,
            point.throughput,
            point.interactivity,
            not any(_dominates(other, point) for other in whole),
        )
        for point in whole
    ]


def _dominates(other: Point, point: Point) -> bool:
    more = other.throughput.value - point.throughput.value
    quicker = other.interactivity.value - point.interactivity.value
    return more >= 0 and quicker >= 0 and (more > 0 or quicker > 0)


def rows(claims: Sequence[Claim]) -> list[tuple[str, str, str, str, str]]:
    """Lines of a table: settings, rate, throughput, interactivity, whether on the front."""
    return [
        (
            point.arm,
            words.number(point.rate),
            words.shown(point.throughput, "tokens/s"),
            words.shown(point.interactivity, "tokens/s"),
            "yes" if point.is_best else "",
        )
        for point in points(claims)
    ]


def drawn(claims: Sequence[Claim]) -> str:
    """Both settings as points: to the right each user gets tokens faster, above all of them more."""
    placed = points(claims)
    if not placed:
        return ""
    across_most = max(point.interactivity.value for point in placed) * 1.1
    up_most = max(point.throughput.value for point in placed) * 1.1
    shapes = [
        element("line", x1=_MARGIN, x2=_WIDTH, y1=_TALL, y2=_TALL, class_="unity"),
        element("line", x1=_MARGIN, x2=_MARGIN, y1=0, y2=_TALL, class_="unity"),
        text("tokens/s of a user", _WIDTH, _TALL + 30, "axis", "end"),
        text("tokens/s", 0, 12, "axis"),
    ]
    for point in placed:
        x = _MARGIN + (_WIDTH - _MARGIN) * point.interactivity.value / across_most
        y = _TALL * (1 - point.throughput.value / up_most)
        kind = "mark kept" if point.arm == "kept" else "block control"
        dot = element("circle", cx=x, cy=y, r=5 if point.is_best else 3, class_=kind)
        said = (
            f"{point.arm}, {words.number(point.rate)} requests/s: "
            f"{words.number(point.throughput.value)} tokens/s, "
            f"{words.number(point.interactivity.value)} of a user"
        )
        shapes.append(titled(dot, said))
        shapes.append(text(f"{point.arm} {point.rate:.3g}/s", x + 8, y + 4, "axis"))
    return picture(
        "".join(shapes), _WIDTH + 40, _TALL + 40, "throughput against interactivity by rate"
    )
