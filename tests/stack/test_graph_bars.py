"""Bars that the whole graph must clear: size, sources, reach, answers and constraints."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from assay import stack
from assay.model.auditing.audit import audit
from assay.model.auditing.verify import verify

TARGETS = [
    "gpu.peak_flops",
    "training.tokens_per_second",
    "training.time_to_train",
    "serving.time_per_output_token",
    "serving.time_to_first_token",
    "serving.goodput",
    "thermal.dc.pue",
    "econ.job.dc_power",
    "econ.run.power_cost",
    "econ.cost.per_token",
    "econ.cost.per_output_token",
    "carbon.per_token",
    "carbon.per_output_token",
]

CONSTRAINTS = [
    "gpu.power_cap",
    "interconnect.bisection.full",
    "parallelism.fits_memory",
    "parallelism.heads_divide",
    "parallelism.layers_divide",
    "parallelism.batch_divides",
    "serving.fits_memory",
    "serving.first_token_in_time",
    "serving.output_tokens_in_time",
    "cluster.rack.within_limit",
    "thermal.dc.within_feed",
]


def test_size() -> None:
    registry = stack.registry()
    assert len(registry.relations) >= 400
    assert len(registry.variables) >= 600


def test_nine_relations_in_ten_cite_an_outside_work() -> None:
    report = audit(stack.registry())
    assert report.cited["relations"] >= 0.9
    assert report.shares == {"relations": 1.0, "variables": 1.0}


def test_every_relation_reaches_a_target_or_is_library() -> None:
    registry = stack.registry()
    assert audit(registry).unreached_relations == ()
    library = [name for name, relation in registry.relations.items() if relation.library]
    assert len(library) <= 0.1 * len(registry.relations)


def test_nothing_below_a_target_is_library() -> None:
    """The tag is for what no answer needs, not a way around the bar."""
    registry = stack.registry()
    reached = registry.graph.reachable().relations
    assert [name for name in reached if registry.relations[name].library] == []


@pytest.mark.parametrize("target", TARGETS)
def test_what_people_ask_for_is_a_target(target: str) -> None:
    assert stack.registry().variables[target].target


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_what_people_must_not_break_is_a_constraint(constraint: str) -> None:
    registry = stack.registry()
    assert constraint in registry.constraints
    assert constraint in registry.graph.reachable().relations


def test_the_graph_is_one() -> None:
    """Every variable that an answer needs hangs together with every other, edges either way."""
    graph = stack.registry().graph
    wanted = graph.reachable().variables
    start = "architecture.hidden"
    seen, stack_of_names = {start}, [start]
    while stack_of_names:
        name = stack_of_names.pop()
        for other in (*graph.successors[name], *graph.predecessors[name]):
            if other not in seen:
                seen.add(other)
                stack_of_names.append(other)
    through_constraints = {
        name
        for constraint in stack.registry().constraints.values()
        if not seen.isdisjoint(constraint.inputs)
        for name in constraint.inputs
    }
    assert wanted - seen - through_constraints == set()


def test_no_rule_of_the_house_is_broken() -> None:
    report = verify(stack.registry())
    assert report.ok, [check for check in report.checks if check.status == "failed"]


def test_citations_name_a_work_and_a_year_or_an_edition() -> None:
    """A work cited without any number in it is one that nobody could find."""
    registry = stack.registry()
    works = Counter(r.reference.work for r in registry.relations.values() if r.reference.work)
    cited = {r.reference.work for r in registry.relations.values() if r.reference.kind == "cited"}
    timeless = {work for work in cited if not re.search(r"\d", work)}
    # Living documents carry no year.
    assert sum(works[work] for work in timeless) <= 0.1 * sum(works.values()), sorted(timeless)
