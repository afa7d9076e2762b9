"""Operators of a site: published numbers of people, and costs that scale with the machines."""

import pytest

from assay.scenario.questions.resolving import resolve

TRAINING = "llama3_8b_8_h100_training"


def value(target: str, *assign: str) -> float:
    found = resolve(target, preset=TRAINING, assign=assign, intervals=False).resolution.value
    assert found is not None
    return found


@pytest.mark.parametrize(("megawatts", "low", "high"), [(1, 8, 8), (5, 14.9, 15.1), (100, 30, 100)])
def test_people_are_those_of_the_published_table(megawatts: float, low: float, high: float) -> None:
    """8 to 15 people at 1 to 5 MW (Broadstaff); some 50 a building of a hyperscale site."""
    people = value("econ.staff.people", f"cluster.design_power={megawatts} MW")
    assert low <= people <= high


def test_one_node_does_not_employ_a_shift() -> None:
    """One node cost 26 USD a GPU-hour, of which operators were 25."""
    small = value("econ.gpu.owned_rate", "cluster.nodes=1 node")
    usual = value("econ.gpu.owned_rate", "cluster.nodes=128 node")
    assert small == pytest.approx(usual, rel=0.1)
    assert value("econ.staff.people", "cluster.nodes=1 node") < 0.2


def test_more_machines_have_more_operators_and_fewer_each() -> None:
    nodes = (1, 8, 128, 1024, 16384)
    people = [value("econ.staff.people", f"cluster.nodes={count} node") for count in nodes]
    assert people == sorted(people)
    assert people[-1] > 40
    each = [count / number for count, number in zip(people, nodes, strict=True)]
    assert each[1:] == sorted(each[1:], reverse=True)
