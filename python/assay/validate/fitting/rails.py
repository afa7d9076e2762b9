"""Fit the constants of collectives between nodes on published runs of nccl-tests.

    python -m assay.validate.fitting.rails                  each cluster, left out
    python -m assay.validate.fitting.rails --write FILE

Runs over TCP are scored and not fitted. A run counts as `_COUNTED` rows at most. The spreads are such that
90 % of the rows of clusters left out lie in their 90 % interval.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import least_squares

from assay import json_records
from assay.array_types import Floats
from assay.validate.collectives.predict import QUANTILE_95
from assay.validate.collectives.rails import FITTED, Run, errors, is_between_nodes, report, runs

_SCALE: Final = 0.1
"""Scale of the soft-L1 loss: larger errors are those of a cluster's own tuning."""
_COUNTED: Final = 25
_PRIOR: Final = {
    "collectives.rail.share": (0.94, 0.03),
    "collectives.rail.latency": (1e-5, 0.5),
    "collectives.rail.ramp": (1e-4, 1.0),
    "collectives.rail.exchange_latency": (2e-5, 0.5),
    "collectives.rail.exchange_ramp": (1e-4, 1.0),
}
"""Values and logarithmic spreads; 46 to 48 GB/s of an adapter of 50 are what NCCL's authors expect.

github.com/NVIDIA/nccl-tests, issue 290.
"""
_WEIGHT: Final = 0.3


def fit(every: Sequence[Run]) -> dict[str, float]:
    """The constants that these runs suggest, those over RDMA."""
    every = [run for run in every if run.over == "RDMA"]
    center = np.log([value for value, _ in _PRIOR.values()])
    spread = np.array([spread for _, spread in _PRIOR.values()])

    def named(logs: Floats) -> dict[str, float]:
        return {name: float(value) for name, value in zip(FITTED, np.exp(logs), strict=True)}

    def residuals(logs: Floats) -> Floats:
        values = named(logs)
        parts = [errors(run, values) * min(1.0, (_COUNTED / len(run.size)) ** 0.5) for run in every]
        return np.concatenate([*parts, _WEIGHT * (logs - center) / spread])

    top = np.array([0.0, *[np.inf] * (len(center) - 1)])
    solution = least_squares(
        residuals, center, loss="soft_l1", f_scale=_SCALE, bounds=(-np.inf, top)
    )
    return named(solution.x)


def left_out(every: Sequence[Run]) -> list[tuple[Run, Floats]]:
    """Errors on each cluster with the constants that the others suggest."""
    scored = []
    for cluster in dict.fromkeys(run.id for run in every):
        values = fit([run for run in every if run.id != cluster])
        scored += [(run, errors(run, values)) for run in every if run.id == cluster]
    return scored


def spreads(scored: Sequence[tuple[Run, Floats]]) -> dict[str, float]:
    """Logarithmic spread of rings and of all-to-alls, by 90 % quantiles of their errors."""
    found = {}
    for is_exchange in (False, True):
        logs = [
            np.abs(logs)
            for run, logs in scored
            if (run.operation == "all_to_all") is is_exchange and run.over == "RDMA"
        ]
        spread = float(np.quantile(np.concatenate(logs), 0.9) / QUANTILE_95)
        for operation in {run.operation for run, _ in scored}:
            if (operation == "all_to_all") is is_exchange:
                found[operation] = spread
    return found


def document(every: Sequence[Run]) -> dict[str, Any]:
    """The constants with their errors, as a calibration file."""
    values, scored = fit(every), left_out(every)
    wide = spreads(scored)
    entries: dict[str, Any] = {
        name: {"value": float(f"{values[name]:.4g}"), "unit": unit, "kind": "fitted"}
        for name, unit in FITTED.items()
    }
    for name, operation in (("error", "all_reduce"), ("exchange_error", "all_to_all")):
        entries[f"collectives.rail.{name}"] = {
            "value": 1.0, "unit": "1", "kind": "model error",
            "log_standard_error": float(f"{wide[operation]:.2g}"),
        }  # fmt: skip
    return {
        "system": "common",
        "provenance": {
            "kind": "fitted",
            "source": "published runs of nccl-tests, catalog/cases/nccl_tests.json",
            "method": "least squares on logarithms, soft_l1, a prior on the share; errors on clusters left out",
            "command": "python -m assay.validate.fitting.rails --write FILE",
            "date": datetime.date.today().isoformat(),
        },
        "constants": entries,
    }


def main() -> None:
    """Print the errors on clusters left out, and write the constants where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the JSON file")
    options = parser.parse_args()
    every = [run for run in runs() if is_between_nodes(run)]
    if options.write:
        options.write.write_text(json_records.dumps(document(every), depth=2) + "\n")
    print(report(left_out(every)))


if __name__ == "__main__":
    main()
