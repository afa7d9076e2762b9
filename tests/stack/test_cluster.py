"""Network, power, failures and checkpoints against published figures, closed forms, simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from assay import stack

from .sites import SITE

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

Given = dict[str, float | str]


def value(target: str, given: Given, **variants: str) -> float:
    named = {name.replace("__", "."): variant for name, variant in variants.items()}
    return stack.registry().resolve(target, given, variants=named).require_value()


# The Llama 3 Herd of Models, sec. 3.3.4: 419 unexpected interruptions in 54 days on 16,384 GPUs.
LLAMA_RATE = 419 / (54 * DAY * 16384)


def test_interruptions_of_llama_3() -> None:
    given: Given = {
        "training.gpus": 16384,
        "training.time_to_train": 54 * DAY,
        "training.run_yield": 1,
        "cluster.node.gpus": 8,
        "cluster.failures.gpu_rate": 0.587 * LLAMA_RATE,
        "cluster.failures.node_rate": 0.413 * LLAMA_RATE * 8,
        "cluster.failures.shared_rate": 0,
    }
    assert value("cluster.run.interruptions", given) == pytest.approx(419, rel=1e-12)
    # The paper states one interruption about every three hours.
    assert value("cluster.job.mtbf", given) == pytest.approx(3.1 * HOUR, rel=0.01)


def checkpointed(mtbf: float, stall: float, restart: float) -> Given:
    return {
        "cluster.job.mtbf": mtbf,
        "cluster.checkpoint.stall": stall,
        "cluster.job.restart_time": restart,
        "cluster.run.planned_share": 0,
    }


@pytest.mark.parametrize(
    ("mtbf", "minutes"), [(24 * HOUR, 117.0), (6 * HOUR, 57.0), (15 * MINUTE, 9.1)]
)
def test_optimum_intervals_that_daly_prints(mtbf: float, minutes: float) -> None:
    """Daly 2006, Figures 3 to 5: dumps of 5 min, restarts of 10 min."""
    given = checkpointed(mtbf, 5 * MINUTE, 10 * MINUTE)
    found = value("cluster.checkpoint.interval", given) / MINUTE
    assert found == pytest.approx(minutes, rel=0.006)


def test_young_interval_is_first_order_of_daly() -> None:
    given = checkpointed(30 * HOUR, 2 * MINUTE, 10 * MINUTE)
    found = value(
        "cluster.checkpoint.interval", given, cluster__checkpoint__interval="checkpoint.young"
    )
    assert found == pytest.approx(math.sqrt(2 * 2 * MINUTE * 30 * HOUR), rel=1e-12)
    assert found == pytest.approx(value("cluster.checkpoint.interval", given), rel=0.03)


@pytest.mark.parametrize("mtbf", [1 * HOUR, 3 * HOUR, 24 * HOUR])
def test_daly_interval_maximizes_availability(mtbf: float) -> None:
    given = checkpointed(mtbf, 2 * MINUTE, 10 * MINUTE)

    def lost(interval: float) -> float:
        return -value(
            "cluster.run.availability", {**given, "cluster.checkpoint.interval": interval}
        )

    best = minimize_scalar(lost, bounds=(MINUTE, 10 * HOUR), method="bounded")
    chosen = value("cluster.run.availability", given)
    assert chosen == pytest.approx(-best.fun, rel=1e-5)


@pytest.mark.parametrize(
    ("mtbf", "stall", "restart"), [(3 * HOUR, 60.0, 600.0), (1 * HOUR, 120.0, 300.0)]
)
def test_availability_against_simulated_failures(mtbf: float, stall: float, restart: float) -> None:
    given = checkpointed(mtbf, stall, restart)
    interval = value("cluster.checkpoint.interval", given)
    random = np.random.default_rng(20240731)
    segments, elapsed = 40_000, 0.0
    for _ in range(segments):
        need = interval + stall
        while (failure := random.exponential(mtbf)) < need:
            elapsed += failure
            # A restart is itself interrupted and begun anew.
            while (again := random.exponential(mtbf)) < restart:
                elapsed += again
            elapsed += restart
        elapsed += need
    assert value("cluster.run.availability", given) == pytest.approx(
        segments * interval / elapsed, rel=0.005
    )


def test_run_availability_follows_from_job_size() -> None:
    given: Given = {
        **SITE,
        "training.gpus": 16384,
        "architecture.parameters": 405e9,
        "optimizer.weight_bytes": "2 byte",
        "optimizer.state_bytes": "12 byte",
        "cluster.storage.bandwidth": "2 TB/s",
        "cluster.storage.node_bandwidth": "5 GB/(s*node)",
        "cluster.checkpoint.hidden_share": 0.9,
        "cluster.failures.gpu_rate": LLAMA_RATE,
        "cluster.failures.node_rate": 0,
        "cluster.failures.shared_rate": 0,
        "cluster.failures.restart_delay": "10 min",
        "cluster.run.planned_share": 0.01,
        "cluster.run.productive_share": 1,
    }
    # 405e9 weights by 14 bytes at 2 TB/s.
    assert value("cluster.checkpoint.time", given) == pytest.approx(2.835, rel=1e-12)
    large = value("training.run_yield", given)
    # The Llama 3 Herd of Models, sec. 3.3.4: "higher than 90 % effective training time".
    assert 0.9 < large < 0.97
    assert value("training.run_yield", {**given, "training.gpus": 1024}) > large


@pytest.mark.parametrize(
    ("radix", "ports", "switches", "tiers"),
    [
        # Al-Fares et al. 2008, sec. 2.2: k^3/4 hosts on 5 k^2/4 switches.
        (48, 48**3 // 4, 5 * 48**2 // 4, 3),
        (64, 64**3 // 4, 5 * 64**2 // 4, 3),
        # Two tiers: k^2/2 hosts on k leaves and k/2 spines.
        (64, 64**2 // 2, 96, 2),
        (64, 64, 1, 1),
    ],
)
def test_switches_of_a_fat_tree(radix: int, ports: int, switches: int, tiers: int) -> None:
    given: Given = {
        "cluster.network.endpoints": ports,
        "cluster.network.switch_ports": radix,
        "interconnect.oversubscription": 1,
    }
    assert value("cluster.network.tiers", given) == tiers
    assert value("cluster.network.switches", given) == switches


def test_oversubscribed_fat_tree_has_fewer_switches() -> None:
    given: Given = {"cluster.network.endpoints": 2048, "cluster.network.switch_ports": 63}
    full = value("cluster.network.switches", {**given, "interconnect.oversubscription": 1})
    thin = value("cluster.network.switches", {**given, "interconnect.oversubscription": 2})
    # Leaves with 42 ports down and 21 up, then two tiers above a thousand uplinks.
    assert thin == math.ceil(2048 / 42 + 3 * 1024 / 63)
    assert thin < full


def test_power_of_the_site() -> None:
    """The parts of a node added up by hand: 1024 GPUs, 48 switches, 4096 transceivers."""
    parts = 8 * 600 + 2 * (100 + 0.2 * 250) + 200 + 100 + 8 * 25 + (48 * 750 + 4096 * 9) / 128
    node = parts * (1 + 0.15 * 0.2) / 0.94
    assert value("cluster.node.power", SITE) == pytest.approx(node, rel=1e-12)
    assert value("cluster.it_power", SITE) == pytest.approx(128 * node, rel=1e-12)
    # GPUs at 700 W and CPUs at 350 W, whatever they draw now.
    most = (parts + 8 * 100 + 2 * 200) * (1 + 0.15 * 0.2) / 0.94
    assert value("cluster.design_power", SITE) == pytest.approx(128 * most, rel=1e-12)
    verdicts = stack.registry().resolve("cluster.it_power", SITE).constraints
    assert {v.name: v.status for v in verdicts}["cluster.rack.within_limit"] == "true"


def test_rack_power_limit_is_violated_by_too_many_nodes() -> None:
    resolution = stack.registry().resolve(
        "cluster.it_power", {**SITE, "cluster.rack.nodes": "10 node"}
    )
    assert [v.name for v in resolution.violated] == ["cluster.rack.within_limit"]


@pytest.mark.parametrize(("nodes", "racks"), [(1, 1), (4, 1), (5, 2), (128, 32)])
def test_racks_are_counted_and_cite_no_work(nodes: int, racks: int) -> None:
    registry = stack.registry()
    given = {"cluster.nodes": float(nodes), "cluster.rack.nodes": 4.0}
    assert registry.resolve("cluster.racks", given).value == racks
    (relation,) = registry.variables["cluster.racks"].defining_equations
    assert relation.reference.kind == "definition"
