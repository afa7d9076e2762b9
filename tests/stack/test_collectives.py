"""Collectives: textbook figures, limits that need no constants, and NCCL's published timings."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from assay.catalog import constants
from assay.model import Registry, Scope
from assay.stack import collectives, gpu, hbm, interconnect
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives import library as collectives_library, spans, templates
from assay.stack.kernels import device
from assay.validate.cases import Case
from assay.validate.collectives.predict import handles, predict
from assay.validate.collectives.tables import CONSTANTS, compiled, link_bandwidth


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes(
        [hbm.scope, gpu.scope, interconnect.scope, device.scope, collectives.scope]
    )


WORKED = {
    "collectives.size": "1e9 byte",
    "collectives.ranks": 64,
    "collectives.local.ranks": 8,
    "collectives.latency": "5 us",
    "collectives.bandwidth": "50 GB/s",
    "collectives.local.latency": "1 us",
    "collectives.local.bandwidth": "450 GB/s",
}


@pytest.mark.parametrize(
    ("target", "seconds"),
    [
        ("ring.allreduce", 0.040005),
        ("ring.allgather", 0.0200025),
        ("hierarchical.allreduce", 0.00834789),
        ("hierarchical.allgather", 0.00417394),
        ("direct.alltoall", 5e-6 + 63 / 64 * 1e9 / 50e9),
        ("tree.allreduce", 2 * (6 * 5e-6 + 1e9 / 50e9)),
    ],
)
def test_64_ranks(registry: Registry, target: str, seconds: float) -> None:
    found = registry.resolve(f"collectives.{target}", WORKED).value
    assert found == pytest.approx(seconds, rel=2e-6)


def declared(name: str, size: float, ranks: int, latency: float, bandwidth: float) -> float:
    """One template in a scope of its own."""
    scope = Scope("probe", "one collective")
    inputs = [
        scope.variable(n, n[0], unit, n, boundary="scenario")
        for n, unit in (("size", "byte"), ("ranks", "1"), ("latency", "s"), ("bandwidth", "byte/s"))
    ]
    getattr(templates, name)(
        scope, "op.", size=inputs[0], ranks=inputs[1], latency=inputs[2], bandwidth=inputs[3]
    )
    given = dict(zip((i.name for i in inputs), (size, ranks, latency, bandwidth), strict=True))
    value = Registry.from_scopes([scope]).resolve("probe.op.time", given).value
    assert value is not None
    return value


TEMPLATES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


@pytest.mark.parametrize("name", TEMPLATES)
def test_one_rank_sends_nothing(name: str) -> None:
    assert declared(name, 1e9, 1, 5e-6, 50e9) == 0.0


def test_reduction_is_scatter_and_gather_where_the_ring_wins() -> None:
    shape = (1e9, 64, 5e-6, 50e9)
    parts = declared("reduce_scatter", *shape) + declared("all_gather", *shape)
    assert declared("all_reduce", *shape) == pytest.approx(parts, rel=1e-12)


@pytest.mark.parametrize("ranks", [64, 100, 1024])
def test_small_messages_use_the_tree(ranks: int) -> None:
    """Two trees need 2 ceil(log2 p) steps, a ring 2 (p - 1)."""
    found = declared("all_reduce", 8.0, ranks, 5e-6, 50e9)
    assert found == pytest.approx(2 * math.ceil(math.log2(ranks)) * 5e-6, rel=1e-4)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_no_collective_beats_the_bandwidth_bound(name: str, ranks: int) -> None:
    """Lower bound: a rank receives (p - 1)/p of the size, twice that for an all-reduce."""
    least = 1e9 / 50e9 * (ranks - 1) / ranks * (2 if name == "all_reduce" else 1)
    assert declared(name, 1e9, ranks, 0.0, 50e9) >= least * (1 - 1e-12)


def spanned(name: str, size: float, local: int, nodes: int) -> float:
    scope = Scope("probe", "one collective over nodes")
    bytes_held = scope.variable("size", "S", "byte", "size", boundary="scenario")
    inside = scope.variable("inside", "r", "1", "ranks in a node", boundary="scenario")
    count = scope.variable("nodes", "N", "1", "nodes", boundary="scenario")
    values = [
        scope.variable(n, "x", unit, n, boundary="scenario")
        for n, unit in (("la", "s"), ("lb", "byte/s"), ("na", "s"), ("nb", "byte/s"))
    ]
    span = Span(inside, count, Medium(*values[:2]), Medium(*values[2:]))
    getattr(spans, name)(scope, "op.", size=bytes_held, span=span)
    given = {
        "probe.size": size, "probe.inside": local, "probe.nodes": nodes, "probe.la": 1e-6,
        "probe.lb": 450e9, "probe.na": 5e-6, "probe.nb": 50e9,
    }  # fmt: skip
    value = Registry.from_scopes([scope]).resolve("probe.op.time", given).value
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("spanning_all_reduce", "all_reduce"),
        ("spanning_all_gather", "all_gather"),
        ("spanning_reduce_scatter", "reduce_scatter"),
        ("spanning_all_to_all", "all_to_all"),
        ("hierarchical_all_reduce", "all_reduce"),
        ("hierarchical_all_gather", "all_gather"),
        ("hierarchical_all_to_all", "all_to_all"),
    ],
)
@pytest.mark.parametrize(
    ("local", "nodes", "medium"), [(8, 1, (1e-6, 450e9)), (1, 8, (5e-6, 50e9))]
)
def test_hierarchical_collective_on_one_level_equals_flat_collective(
    name: str, plain: str, local: int, nodes: int, medium: tuple[float, float]
) -> None:
    assert spanned(name, 1e9, local, nodes) == pytest.approx(
        declared(plain, 1e9, 8, *medium), rel=1e-9
    )


def test_rails_carry_inter_node_traffic() -> None:
    """Eight adapters of 50 GB/s a node: a ring through 64 ranks runs at 400 GB/s."""
    latency = (63 - 7) * 1e-6 + 7 * 5e-6
    assert spanned("spanning_all_gather", 1e9, 8, 8) == pytest.approx(
        latency + 63 / 64 * 1e9 / 400e9, rel=1e-12
    )


def test_all_to_all_is_bound_by_adapters() -> None:
    """A rank sends 56 of 64 parts to other nodes, through its own adapter."""
    assert spanned("spanning_all_to_all", 1e9, 8, 8) == pytest.approx(
        5e-6 + 56 / 64 * 1e9 / 50e9, rel=1e-12
    )


def test_all_to_all_inside_a_node_takes_the_measured_share() -> None:
    scope = Scope("probe", "an exchange between eight ranks")
    size = scope.variable("size", "S", "byte", "size", boundary="scenario")
    ranks = scope.variable("ranks", "p", "1", "ranks", boundary="scenario")
    spans.spanning_all_to_all(scope, "op.", size=size, span=spans.span_of(ranks, ranks))
    found = Registry.from_scopes(
        [hbm.scope, gpu.scope, interconnect.scope, device.scope, collectives.scope, scope]
    ).resolve(
        "probe.op.time",
        {
            "probe.size": 1e9, "probe.ranks": 8, "gpu.link.bandwidth": 450e9,
            "collectives.exchange_start": 1e-5, "collectives.exchange_share": 0.75,
            "interconnect.nic.rate": 4e10, "interconnect.nic.latency": 1e-5,
        },
    )  # fmt: skip
    assert found.value == pytest.approx(1e-5 + 7 / 8 * 1e9 / (0.75 * 450e9), rel=1e-12)


def node_times(system: str, size: float, ranks: float, direct: float = 0.0) -> dict[str, float]:
    values = constants.given(system)
    found = compiled()(
        *(values[name] for name in CONSTANTS), link_bandwidth(system), size, ranks, direct
    )
    return dict(zip(collectives_library.OPERATIONS, np.ravel(found), strict=True))


# Bus bandwidths that NVIDIA's tests print for large messages on eight GPUs of a node, GB/s.
@pytest.mark.parametrize(("system", "bus"), [("a100_sxm", 235e9), ("h100_sxm", 450e9)])
def test_large_reductions_reach_the_known_bus_bandwidth(system: str, bus: float) -> None:
    time = node_times(system, 8 * 2**30, 8)["all_reduce"]
    assert 2 * 7 / 8 * 8 * 2**30 / time == pytest.approx(bus, rel=0.1)


@pytest.mark.parametrize("system", ["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"])
def test_time_grows_with_size_and_never_beats_the_links(system: str) -> None:
    sizes = 2.0 ** np.arange(8, 34)
    for name in collectives_library.OPERATIONS:
        times = [node_times(system, size, 8)[name] for size in sizes]
        assert all(later >= earlier for earlier, later in pairwise(times))
        # Reductions in the switch send everything once and receive it once.
        floor = [size * 7 / 8 / link_bandwidth(system) for size in sizes]
        assert all(time > least for time, least in zip(times, floor, strict=True))


def test_engine_all_reduce_kernels_are_faster_for_small_messages_only() -> None:
    assert node_times("h200_sxm", 8192.0, 8, 1)["all_reduce"] < 8e-6
    assert node_times("h200_sxm", 8192.0, 8)["all_reduce"] > 14e-6
    large = 2.0**29
    assert node_times("h200_sxm", large, 8, 1)["all_reduce"] == pytest.approx(
        node_times("h200_sxm", large, 8)["all_reduce"], rel=1e-12
    )


def case(name: str, **inputs: object) -> Case:
    base: dict[str, object] = {
        "system": "h200_sxm",
        "dtype": "half",
        "num_gpus": 8,
        "op": "all_reduce",
    }
    return Case(name, "hardware", {**base, **inputs}, {"latency_ms": 1.05263})


def test_a_published_reduction() -> None:
    """nccl-tests on eight H200: 134217728 half numbers in 1.0526 ms."""
    (row,) = predict([case("aic-x", message_size_elements=134217728)])
    assert row.error == pytest.approx(0.0, abs=0.1)
    assert row.is_inside
    assert sum(row.terms.values()) == pytest.approx(row.predicted, rel=1e-9)


def test_sizes_in_bytes_are_the_same() -> None:
    (first,) = predict([case("aic-x", message_size_elements=2**20)])
    (second,) = predict([case("aic-y", message_size_bytes=2**21)])
    assert first.predicted == second.predicted


def test_eight_bit_integers_are_not_reduced_in_the_switch() -> None:
    (half,) = predict([case("aic-x", message_size_bytes=2**29)])
    (integers,) = predict([case("aic-y", message_size_bytes=2**29, dtype="int8")])
    assert half.predicted is not None
    assert integers.predicted is not None
    assert integers.predicted > 1.2 * half.predicted


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        ({"num_gpus": 64, "message_size_bytes": 1}, "only collectives inside a node"),
        ({}, "size of the message"),
        ({"system": "abacus", "message_size_bytes": 1}, "abacus"),
    ],
)
def test_unpredicted_cases_name_the_reason(change: dict[str, object], gap: str) -> None:
    (row,) = predict([case("aic-x", **change)])
    assert row.predicted is None
    assert gap in row.gap


def test_collective_cases_are_selected_by_kind() -> None:
    assert handles(case("aic-x", op="alltoall"))
    assert not handles(case("aic-x", op="gemm"))
