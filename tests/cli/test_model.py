"""`assay stats`, `list`, `show`, `cone` and `export`."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from assay import stack


def test_stats_counts_registry_entries(cli: Any) -> None:
    data = cli("stats", "--json").data
    registry = stack.registry()
    assert data["variables"] == len(registry.variables)
    assert data["relations"] == data["unit_checked"] == len(registry.relations)
    assert data["cycles"] == 0
    lines = cli("stats").out.splitlines()
    assert [int(line.split()[-1].replace(",", "")) for line in lines] == list(data.values())


def test_list_prints_one_variable_a_line(cli: Any) -> None:
    outcome = cli("list", "--scope", "logic", "--roots", "--filter", "wire")
    assert outcome.out == (
        "variable                           unit   meaning\n"
        "logic.wire.length                  m      length of the driven wire\n"
        "logic.wire.resistance_per_length   ohm/m  wire resistance per length\n"
        "logic.wire.capacitance_per_length  F/m    wire capacitance per length\n"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), lambda r: [*r.constants, *r.variables]),
        (("--roots",), lambda r: list(r.roots)),
        (("--targets",), lambda r: list(r.targets)),
        (("--relations",), lambda r: list(r.relations)),
        (("--scope", "gpu"), lambda r: [n for n in r.variables if n.startswith("gpu.")]),
        (("--filter", "PUE"), lambda r: ["thermal.dc.pue", "thermal.dc.stated_pue"]),
        (("--filter", "no such thing"), lambda r: []),
        (("--relations", "--scope", "logic", "--filter", "<="), lambda r: ["logic.clock.timing"]),
    ],
)
def test_list_filters(cli: Any, options: tuple[str, ...], expected: Any) -> None:
    outcome = cli("list", *options, "--json")
    assert outcome.code == 0
    assert [row["name"] for row in outcome.data] == expected(stack.registry())
    text = cli("list", *options, "--limit", "0").out
    assert all(row["name"] in text for row in outcome.data)


def test_list_presets(cli: Any) -> None:
    (row,) = [r for r in cli("list", "--presets", "--json").data if "fixture" in r["name"]]
    assert row["name"] == "dense_training_cost_fixture"
    assert row["values"] == 19
    assert {"label": "cost per token", "variable": "econ.cost.per_token"} in row["targets"]
    assert "dense_training_cost_fixture" in cli("list", "--presets").out


def test_show_variable(cli: Any) -> None:
    assert cli("show", "cluster.cpu.working_load").out == (
        "cluster.cpu.working_load  u_k\n"
        "utilization of the host CPUs while kernels run\n"
        "\n"
        "unit      1\n"
        "shown in  %\n"
        "bounds    >= 0 % and <= 100 %\n"
        "role      root\n"
        "boundary  scenario\n"
        "family    cluster.cpu\n"
        "scope     cluster: Nodes, network, racks, failures\n"
        "source    Fan, Weber and Barroso 2007, Power Provisioning for a Warehouse-sized\n"
        "          Computer, power between idle and busy, by CPU utilization\n"
        "\n"
        "used by\n"
        "  cluster.cpu.load = cluster.cpu.working_load * gpu.duty\n"
    )


def test_show_variable_that_relations_define(cli: Any, toy: Any) -> None:
    assert cli("show", "toy.heat").out.split("\n\n", 2)[2] == (
        "defined by\n"
        "  toy.heat = 10 * toy.share * 1 K\n"
        "      approximation; toy.heat.linear; valid if toy.share < 2; A\n"
        "  toy.heat = toy.share * toy.share * 5 * 1 K\n"
        "      approximation; toy.heat.square; valid if toy.share >= 2; unsourced\n"
    )


def test_show_constant_constraint_and_relation(cli: Any) -> None:
    assert "value   299792458 m/s\n" in cli("show", "physics.light_speed").out
    timing = cli("show", "logic.clock.timing")
    assert timing.out.startswith(
        "logic.clock.timing  inequality\nthe gate settles within one clock period\n\n"
    )
    assert "logic.gate.delay <= logic.clock.period" in timing.out
    delay = cli("show", "logic.gate.delay", "--json").data
    assert delay["kind"] == "variable"
    assert [relation["name"] for relation in delay["defined_by"]] == ["logic.gate.delay"]
    assert [relation["name"] for relation in delay["constraints"]] == ["logic.clock.timing"]


def test_show_block(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.model import Registry, Scope

    scope = Scope("b", "a block")
    x, y = scope.variable("x", "x", "1", "one"), scope.variable("y", "y", "1", "other")
    scope.equation(x, 1 + y / 2)
    scope.equation(y, x / 2)
    scope.simultaneous("pair", [x, y])
    registry = Registry.from_scopes([scope])
    monkeypatch.setattr(stack, "registry", lambda: registry)
    assert cli("show", "b.pair").out == (
        "b.pair  simultaneous block\n    b.x = 1 + b.y / 2\n    b.y = b.x / 2\n"
    )
    assert cli("show", "b.x", "--json").data["block"] == "b.pair"
    assert "solved together in b.pair" in cli("explain", "b.x").out


def test_cone_agrees_with_the_graph(cli: Any) -> None:
    graph = stack.registry().graph
    for direction, expected in (
        ("up", graph.ancestors("thermal.dc.power")),
        ("down", graph.descendants("thermal.dc.power")),
    ):
        data = cli("cone", "thermal.dc.power", "--direction", direction, "--json").data
        assert {row["name"] for row in data["variables"]} == expected | {"thermal.dc.power"}
    near = cli("cone", "thermal.dc.power", "--depth", "1", "--json").data
    assert {edge["source"] for edge in near["edges"]} == {
        "cluster.it_power",
        "thermal.dc.overhead_power",
    }


def test_cone_as_text(cli: Any) -> None:
    assert cli("cone", "thermal.dc.pue", "--depth", "1").out == (
        "thermal.dc.pue: 3 variables, 0 roots, 2 relations\n"
        "\n"
        "role      variable          unit  meaning\n"
        "computed  cluster.it_power  W     power of all machines on the site\n"
        "computed  thermal.dc.power  W     power at the site's meter\n"
        "computed  thermal.dc.pue    1     power usage effectiveness (PUE)\n"
        "\n"
        "thermal.dc.pue = thermal.dc.power / cluster.it_power\n"
        "cluster.it_power > 0\n"
    )


def test_export_formats_parse(cli: Any) -> None:
    assert cli("export").out.startswith("digraph assay {")
    assert ElementTree.fromstring(cli("export", "--format", "graphml").out).tag.endswith("graphml")
    nodes = json.loads(cli("export", "--format", "json").out)["nodes"]
    assert {node["name"] for node in nodes} >= set(stack.registry().variables)
    latex = cli("export", "thermal.dc.pue", "--format", "latex", "--depth", "1").out
    assert r"\mathrm{PUE} &= \frac{P_{\mathrm{DC}}}{P_{\mathrm{IT}}}" in latex
    assert latex.endswith("\\end{document}\n")


def test_export_writes_atomically_and_overwrites_only_with_force(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "graph.dot"
    first = cli("export", "thermal.dc.pue", "--output", str(path))
    assert (first.code, first.out) == (0, f"{path}\n")
    assert path.read_text() == cli("export", "thermal.dc.pue").out
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.write_text("mine")
    refused = cli("export", "-o", str(path))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"error: {path} exists already\nhint: --force overwrites it\n"
    assert path.read_text() == "mine"
    forced = cli("export", "-o", str(path), "--force", "--json")
    assert forced.data["bytes"] == path.stat().st_size > 4
    assert forced.data["text"] is None
    assert [item.name for item in tmp_path.iterdir()] == ["graph.dot"]


@pytest.mark.parametrize("place", ["", "no/such/folder/x", "/dev/full", "a\0b"])
def test_export_refuses_unwritable_paths(cli: Any, tmp_path: Path, place: str) -> None:
    outcome = cli("export", "--force", "-o", str(tmp_path / place) if "dev" not in place else place)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
