"""Published runs of nccl-tests that entered no fit, and clusters left out of it."""

from __future__ import annotations

import numpy as np
import pytest

from assay.catalog import constants
from assay.stack import registry
from assay.validate.collectives.rails import (
    ERRORS,
    FITTED,
    errors,
    is_between_nodes,
    runs,
    spread_of,
)

QUANTILE_95 = 1.645
INSTALLED = constants.given("h100_sxm")


def test_constants_between_nodes_are_common_to_all_accelerators() -> None:
    variables = registry().variables
    for name in (*FITTED, *ERRORS):
        assert name in variables
    for system in ("a100_sxm", "h200_sxm", "b200_sxm", "mi300x"):
        assert all(constants.given(system)[name] == INSTALLED[name] for name in FITTED)


def test_runs_of_one_node_that_entered_no_fit() -> None:
    scored = [(run, errors(run, INSTALLED)) for run in runs() if not is_between_nodes(run)]
    every = np.abs(np.expm1(np.concatenate([e for _, e in scored])))
    assert len(every) >= 90
    assert np.median(every) <= 0.04
    assert np.quantile(every, 0.9) <= 0.16
    inside = np.concatenate([np.abs(e) <= QUANTILE_95 * spread_of(run) for run, e in scored])
    assert 0.85 <= np.mean(inside) <= 1.0


def test_runs_between_nodes_over_rdma() -> None:
    scored = [
        (run, errors(run, INSTALLED))
        for run in runs()
        if is_between_nodes(run) and run.over == "RDMA"
    ]
    every = np.abs(np.expm1(np.concatenate([e for _, e in scored])))
    assert np.median(every) <= 0.12
    inside = np.concatenate([np.abs(e) <= QUANTILE_95 * spread_of(run) for run, e in scored])
    assert 0.85 <= np.mean(inside) <= 1.0


def test_tcp_between_nodes_is_slower_than_modeled() -> None:
    """Constants are those of RDMA: a network over TCP takes longer, and is not what answers assume."""
    (run,) = [run for run in runs() if run.over == "TCP"]
    assert np.median(errors(run, INSTALLED)) < -0.5


@pytest.mark.slow
def test_clusters_left_out_of_the_fit() -> None:
    from assay.validate.fitting.rails import left_out

    scored = left_out([run for run in runs() if is_between_nodes(run) and run.over == "RDMA"])
    inside = np.concatenate([np.abs(logs) <= QUANTILE_95 * spread_of(run) for run, logs in scored])
    assert 0.85 <= np.mean(inside) <= 1.0
    assert np.median(np.abs(np.concatenate([logs for _, logs in scored]))) <= 0.15
