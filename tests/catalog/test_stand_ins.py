"""What stands in for chips without multiprocessors: their own rates, and constants of a GPU."""

from __future__ import annotations

import math

import pytest

from assay.catalog import accelerators, constants, stand_ins

CORE = ("gpu.multiprocessors", "gpu.flops_per_cycle", "gpu.clock")


@pytest.mark.parametrize(
    ("name", "peak"), [("tpu_v6e", 918e12), ("tpu_v5e", 197e12), ("trainium1", 190e12)]
)
def test_stand_ins_have_the_peak_and_the_memory_of_the_chip(name: str, peak: float) -> None:
    entry = accelerators.find(name)
    given = stand_ins.modeled(entry).given
    assert math.prod(given[variable] for variable in CORE) == pytest.approx(peak, rel=0.01)
    for variable in ("gpu.memory.bandwidth", "gpu.memory.capacity", "gpu.link.bandwidth"):
        assert given[variable] == entry.given[variable]
    (note,) = stand_ins.notes(entry)
    assert "SMs of h100_sxm" in note


@pytest.mark.parametrize("name", ["h100_sxm", "mi300x", "trainium2", "cpu_x86_64_2"])
def test_others_are_what_they_are(name: str) -> None:
    """GPUs have their own, and what lacks the rate of its links stays without an answer."""
    entry = accelerators.find(name)
    assert stand_ins.modeled(entry) is entry
    assert not stand_ins.notes(entry)


def test_a_torus_has_rings_and_other_makers_a_wide_error() -> None:
    error = "serving.model_error.transfer"
    ring, mesh, lender = (constants.find(name) for name in ("tpu_v6e", "mi300x", "h100_sxm"))
    assert ring.values["collectives.switch_share"] == 0
    assert ring.values["collectives.direct_start"] > 1
    assert mesh.values["collectives.direct_start"] == lender.values["collectives.direct_start"]
    assert ring.log_standard_errors[error] == mesh.log_standard_errors[error]
    assert mesh.log_standard_errors[error] > 4 * constants.find("l40s").log_standard_errors[error]
