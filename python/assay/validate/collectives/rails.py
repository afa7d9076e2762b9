"""Published runs of nccl-tests, on several nodes and in one, predicted through the stack.

python -m assay.validate.collectives.rails          every run with the installed constants

`assay.validate.fitting.rails` has the errors on clusters whose runs the constants have not seen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from assay import catalog
from assay.array_types import Floats
from assay.catalog import constants
from assay.model.tapes.compile import Compiled
from assay.stack.collectives import alone
from assay.validate.collectives.predict import QUANTILE_95
from assay.validate.collectives.tables import CONSTANTS, link_bandwidth, registry

FILE: Final = Path(catalog.__file__).parent / "cases" / "nccl_tests.json"
FITTED: Final = {
    "collectives.rail.share": "1",
    "collectives.rail.latency": "s",
    "collectives.rail.ramp": "s",
    "collectives.rail.exchange_latency": "s",
    "collectives.rail.exchange_ramp": "s",
}
"""Constants of collectives between nodes, with their units."""
ERRORS: Final = {
    "collectives.error": 1.0, "collectives.exchange_error": 1.0, "collectives.rail.error": 1.0,
    "collectives.rail.exchange_error": 1.0,
}  # fmt: skip
_SHAPE: Final = ("collectives.size", "collectives.ranks", "interconnect.node_ranks")


@dataclass(frozen=True)
class Run:
    """Timed collectives of one operation on one cluster."""

    id: str
    accelerator: str
    line_rate: float
    """Of the adapters of a GPU, in bytes per second."""
    over: str
    """How messages cross the network: RDMA, which the constants are of, or TCP."""
    operation: str
    nodes: Floats
    node_ranks: Floats
    size: Floats
    seconds: Floats


@cache
def runs() -> tuple[Run, ...]:
    """All published runs, one for each cluster and operation."""
    found = []
    for run in json.loads(FILE.read_text(encoding="utf-8"))["runs"]:
        rate = float(run["line_rate"].split()[0]) * 1e9 / 8
        for operation, rows in run["rows"].items():
            nodes, node_ranks, size, micros = np.array(rows, dtype=np.float64).T
            over = run.get("over", "RDMA")
            shape = (nodes, node_ranks, size, micros * 1e-6)
            found.append(Run(run["id"], run["accelerator"], rate, over, operation, *shape))
    return tuple(found)


@cache
def compiled() -> Compiled:
    """Time of each operation by constants, adapters and shape."""
    return registry().compile(
        inputs=[
            *CONSTANTS,
            *FITTED,
            *ERRORS,
            "gpu.link.bandwidth",
            "interconnect.bisection.bandwidth",
            *_SHAPE,
        ],
        outputs=[figures["time"].name for figures in alone.FIGURES.values()],
    )


def predicted(run: Run, rails: Mapping[str, float]) -> Floats:
    """Time of every row of a run with these constants of collectives between nodes."""
    own = constants.given(run.accelerator)
    every = compiled()(
        *(own[name] for name in CONSTANTS), *(rails[name] for name in FITTED), *ERRORS.values(),
        link_bandwidth(run.accelerator), run.line_rate, run.size, run.nodes * run.node_ranks, run.node_ranks,
    )  # fmt: skip
    chosen: Floats = every[list(alone.FIGURES).index(run.operation)]
    return chosen


def is_between_nodes(run: Run) -> bool:
    """Whether a run is of several nodes: those of one entered no fit."""
    return bool(run.nodes.min() > 1)


def errors(run: Run, rails: Mapping[str, float]) -> Floats:
    """Logarithms of predicted over measured times."""
    logs: Floats = np.log(predicted(run, rails) / run.seconds)
    return logs


def spread_of(run: Run) -> float:
    """Logarithmic spread of measured over predicted times of a run, as it is installed."""
    name = "exchange_error" if run.operation == "all_to_all" else "error"
    prefix = "collectives.rail" if is_between_nodes(run) else "collectives"
    return constants.find(run.accelerator).log_standard_errors[f"{prefix}.{name}"]


def report(scored: Sequence[tuple[Run, Floats]]) -> str:
    """Errors of runs as a table of text, with the share of rows inside the 90 % interval."""
    lines = ["run             operation       rows   median     p90   worst  in 90 %"]
    for run, logs in scored:
        absolute = np.abs(np.expm1(logs))
        inside = np.mean(np.abs(logs) <= QUANTILE_95 * spread_of(run))
        lines.append(
            f"{run.id:15} {run.operation:14} {len(logs):5} {np.median(absolute):8.1%} "
            f"{np.quantile(absolute, 0.9):7.1%} {absolute.max():7.1%} {inside:8.0%}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the errors with the installed constants."""
    argparse.ArgumentParser(
        prog="python -m assay.validate.collectives.rails", description=__doc__
    ).parse_args(arguments)
    installed = constants.given("h100_sxm")
    print(report([(run, errors(run, installed)) for run in runs()]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
