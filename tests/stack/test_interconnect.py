"""Links and adapters against data sheets."""

from __future__ import annotations

import pytest

from assay.model import Registry
from assay.stack import gpu, hbm, interconnect


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([hbm.scope, gpu.scope, interconnect.scope])


@pytest.mark.parametrize(
    ("links", "lanes", "rate", "both_directions"),
    [
        (6, 8, "25 Gbit/s", 300e9),  # NVLink 2, V100
        (12, 4, "50 Gbit/s", 600e9),  # NVLink 3, A100
        (18, 2, "100 Gbit/s", 900e9),  # NVLink 4, H100
        (18, 2, "200 Gbit/s", 1800e9),  # NVLink 5, B200
    ],
)
def test_nvlink_is_half_of_what_is_advertised(
    registry: Registry, links: int, lanes: int, rate: str, both_directions: float
) -> None:
    given = {
        "gpu.link.count": f"{links} 1/GPU",
        "gpu.link.lanes": lanes,
        "gpu.link.lane_rate": rate,
    }
    found = registry.resolve("gpu.link.bandwidth", given).value
    assert found == pytest.approx(both_directions / 2, rel=1e-12)


NETWORK = {
    "interconnect.nic.count": "1 1/GPU",
    "interconnect.nic.line_rate": "400 Gbit/s",
    "interconnect.nic.share": 0.8,
    "interconnect.oversubscription": 2,
}


def test_oversubscription_of_two_halves_the_bandwidth(registry: Registry) -> None:
    found = registry.resolve("interconnect.nic.rate", NETWORK)
    assert found.value == pytest.approx(0.8 * 50e9 / 2, rel=1e-12)


@pytest.mark.parametrize(("oversubscription", "status"), [(1, "true"), (2, "false")])
def test_bisection(registry: Registry, oversubscription: int, status: str) -> None:
    """A fat tree of full bisection lets 512 of 1024 GPUs send to the others at line rate."""
    given = {**NETWORK, "interconnect.oversubscription": oversubscription}
    found = registry.resolve("interconnect.bisection.bandwidth", given)
    assert found.value is not None
    assert 512 * found.value == pytest.approx(512 * 50e9 / oversubscription, rel=1e-12)
    assert [verdict.status for verdict in found.constraints] == [status]
