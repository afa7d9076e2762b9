"""Collectives: textbook figures, limits that need no constants, and NCCL's published timings."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from assay.catalog import constants
from assay.model import Registry, Scope, number
from assay.stack import alpha_beta, collectives, gpu, hbm, interconnect
from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives import (
    alone as alone_figures,
    library as collectives_library,
    spans,
    templates,
)
from assay.stack.kernels import device
from assay.validate.cases import Case
from assay.validate.collectives.predict import handles, predict
from assay.validate.collectives.tables import (
    CONSTANTS,
    compiled,
    link_bandwidth,
    registry as tables_registry,
)


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


ALONE: dict[str, float | str] = {
    "collectives.ranks": 8,
    "collectives.size": "268435456 byte",
    "collectives.error": 1,
    "collectives.exchange_error": 1,
    "collectives.rail.error": 1,
    "collectives.rail.exchange_error": 1,
}


def alone(name: str, **changes: float | str) -> float:
    """A figure of one collective on H200s, from the constants of the catalog."""
    given: dict[str, float | str] = {
        **constants.given("h200_sxm"), "gpu.link.bandwidth": 450e9, "interconnect.node_ranks": 8,
        "interconnect.bisection.bandwidth": 50e9, **ALONE,
        **{key.replace("__", "."): value for key, value in changes.items()},
    }  # fmt: skip
    registry = tables_registry()
    known = {key: value for key, value in given.items() if key in registry.variables}
    value = registry.resolve(f"collectives.{name}", known).value
    assert value is not None
    return value


@pytest.mark.parametrize("name", list(alone_figures.FIGURES))
@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_bus_bandwidth_is_that_of_nccl_tests(name: str, ranks: int) -> None:
    """PERFORMANCE.md of nccl-tests: 2 (n - 1)/n of the algorithm bandwidth, or (n - 1)/n."""
    time = alone(f"{name}.time", collectives__ranks=ranks)
    algorithm = 268435456 / time
    factor = (2 if name == "all_reduce" else 1) * (ranks - 1) / ranks
    assert alone(f"{name}.algorithm_bandwidth", collectives__ranks=ranks) == pytest.approx(
        algorithm
    )
    assert alone(f"{name}.bus_bandwidth", collectives__ranks=ranks) == pytest.approx(
        factor * algorithm
    )


@pytest.mark.parametrize("name", list(alone_figures.FIGURES))
@pytest.mark.parametrize("elements", [2**11, 2**20, 2**27])
def test_a_collective_alone_has_the_time_of_the_validation(name: str, elements: int) -> None:
    """One number from the command line and from the scores of published rows."""
    (row,) = predict([case("aic-x", op=name, message_size_elements=elements)])
    found = alone(f"{name}.time", collectives__size=f"{2 * elements} byte")
    assert row.predicted is not None
    assert 1e3 * found == pytest.approx(row.predicted, rel=1e-9)


@pytest.mark.parametrize("name", ["all_reduce", "all_to_all"])
def test_the_interval_alone_is_that_of_the_validation(name: str) -> None:
    """The validation has the model's error only; the constants' own widen it by a tenth at most."""
    from assay.scenario.questions.resolving import resolve

    (row,) = predict([case("aic-x", op=name, message_size_elements=2**27)])
    found = resolve(
        f"collectives.{name}.time", includes=["accelerators/h200_sxm"],
        assign=["collectives.size=268435456 byte", "collectives.ranks=8"],
    ).resolution  # fmt: skip
    assert row.lo is not None
    assert row.hi is not None
    assert found.lower is not None
    assert found.upper is not None
    widths = math.log(found.upper / found.lower), math.log(row.hi / row.lo)
    assert 0.95 <= widths[0] / widths[1] <= 1.3


def test_between_nodes_the_adapters_bound_a_large_collective() -> None:
    """64 ranks: a ring carries 63/64 of 16 GiB over eight adapters of 50 GB/s; a tree of nodes all of it twice."""
    large: dict[str, float | str] = {
        "collectives__ranks": 64,
        "collectives__size": "17179869184 byte",
    }
    bytes_by_rate = 17179869184 / 400e9
    assert alone("all_gather.time", **large) >= 63 / 64 * bytes_by_rate
    assert alone("all_gather.time", **large) == pytest.approx(bytes_by_rate, rel=0.25)
    assert alone("all_reduce.time", **large) >= 2 * 63 / 64 * bytes_by_rate
    # A rank sends 56 of 64 parts to other nodes, over its own adapter.
    assert alone("all_to_all.time", **large) >= 56 / 64 * 17179869184 / 50e9


def test_two_nodes_send_everything_once() -> None:
    """NVLSTree of two nodes: sums of the switches cross once, so that the links bind, not twice the rails."""
    scope = Scope("probe", "trees over nodes")
    size = scope.variable("size", "S", "byte", "size", boundary="scenario")
    nodes = scope.variable("nodes", "N", "1", "nodes", boundary="scenario")
    rate = scope.variable("rate", "R", "byte/s", "rate of the switch", boundary="scenario")
    eight, none = number("8"), number("0 s")
    links, adapters = number("450e9 byte/s"), number("50e9 byte/s")
    span = Span(eight, nodes, Medium(none, links), Medium(none, adapters))
    scope.declare(
        "time, t [s]: time", equals=alpha_beta.spanning_switch_tree_all_reduce(size, span, rate)
    )
    registry = Registry.from_scopes([scope])
    for count, switch, seconds in ((2, 300e9, 1 / 300), (2, 900e9, 1 / 400), (4, 300e9, 2 / 400)):
        found = registry.resolve(
            "probe.time", {"probe.size": 1e9, "probe.nodes": count, "probe.rate": switch}
        )
        assert found.value == pytest.approx(seconds, rel=1e-12)


def test_time_alone_grows_with_size_and_nodes() -> None:
    for name in alone_figures.FIGURES:
        for ranks in (8, 16, 64):
            times = [
                alone(
                    f"{name}.time", collectives__ranks=ranks, collectives__size=f"{2**power} byte"
                )
                for power in range(25, 34, 2)
            ]
            assert all(later > earlier for earlier, later in pairwise(times))
        wide = [alone(f"{name}.time", collectives__ranks=ranks) for ranks in (16, 32, 64, 256)]
        assert all(later > earlier for earlier, later in pairwise(wide))


@pytest.mark.parametrize(
    ("ranks", "size", "is_valid"),
    [
        (8, "1 GiB", True), (8, "2 GiB", False), (8, "100 byte", False), (16, "100 byte", True),
        (64, "1 GiB", True), (64, "1 MiB", False), (512, "1 GiB", False),
    ],
)  # fmt: skip
def test_what_was_measured_is_stated(ranks: int, size: str, is_valid: bool) -> None:
    from assay.scenario.questions.resolving import resolve

    answer = resolve(
        "collectives.all_reduce.time", includes=["accelerators/h100_sxm"], intervals=False,
        assign=[f"collectives.size={size}", f"collectives.ranks={ranks}"],
    )  # fmt: skip
    assert any("not valid" in note for note in answer.notes) != is_valid


def test_nodes_are_full() -> None:
    from assay.scenario.questions.resolving import resolve

    found = resolve(
        "collectives.all_reduce.time", includes=["accelerators/h100_sxm"], intervals=False,
        assign=["collectives.size=1 GB", "collectives.ranks=12"],
    )  # fmt: skip
    assert [verdict.name for verdict in found.resolution.violated] == ["collectives.nodes.full"]
