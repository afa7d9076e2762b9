"""The checklist of 265 quantities against the graph: names exist, full ones reach a target, and enough are full."""

from __future__ import annotations

from assay import stack
from equation_checklist import VERDICTS, read_items, summary


def test_every_number_is_judged_once() -> None:
    items = read_items()
    assert [item.number for item in items] == list(range(1, 266))
    assert {item.verdict for item in items} <= set(VERDICTS)


def test_every_named_relation_exists() -> None:
    relations = stack.registry().relations
    assert [
        (item.number, name)
        for item in read_items()
        for name in item.relations
        if name not in relations
    ] == []


def test_what_is_full_is_stated_by_relations_that_a_target_uses() -> None:
    registry = stack.registry()
    reached = registry.graph.reachable().relations
    full = [item for item in read_items() if item.verdict == "full"]
    assert [item.number for item in full if not item.relations] == []
    assert [
        (item.number, name) for item in full for name in item.relations if name not in reached
    ] == []


def test_what_is_not_full_says_what_is_missing() -> None:
    rest = [item for item in read_items() if item.verdict != "full"]
    assert [item.number for item in rest if not item.remark] == []
    assert [
        item.number for item in rest if (item.verdict == "absent") != (item.relations == ())
    ] == []


def test_enough_of_the_checklist_is_full() -> None:
    items = read_items()
    print(summary(items))
    assert sum(item.verdict == "full" for item in items) >= 235, summary(items)
