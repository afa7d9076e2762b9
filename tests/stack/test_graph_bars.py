"""Minimum requirements on the whole graph: size, sources, reachability, targets, constraints."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from assay import stack
from assay.model.auditing.audit import audit, stats
from assay.model.auditing.duplicates import template_of
from assay.model.auditing.verify import verify
from assay.model.declarations import RELATION_KINDS

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


def test_graph_has_enough_distinct_relations() -> None:
    """Copies of templates do not count: instantiating one more GEMM adds no equation."""
    counts = stats(stack.registry())
    assert counts["distinct_relations"] >= 1100
    assert counts["distinct_relations"] + counts["template_copies"] == counts["relations"]


def test_every_kind_of_relation_is_in_use() -> None:
    kinds = Counter(relation.kind for relation in stack.registry().relations.values())
    assert set(kinds) == set(RELATION_KINDS)
    assert all(count >= 5 for count in kinds.values()), kinds


def test_graph_has_enough_variables_without_copies() -> None:
    """A variable of a template counts once: its local name, unit and meaning up to what it is of."""
    variables = stack.registry().variables.values()
    assert len({(v.name.rpartition(".")[2], v.unit.text, v.symbol) for v in variables}) >= 1900


def test_instances_of_a_template_count_once() -> None:
    registry = stack.registry()
    forward, weights = (
        template_of(registry, registry.relations[f"training.projection.{phase}.power_time"])
        for phase in ("forward", "weights")
    )
    assert forward == weights
    read, write = (
        template_of(registry, registry.relations[f"training.projection.forward.{name}.fit"])
        for name in ("read_time", "write_time")
    )
    assert len({read, write, forward}) == 3


def test_nine_relations_in_ten_cite_an_outside_work_or_a_page_on_their_fit() -> None:
    report = audit(stack.registry())
    counts = report.coverage["relations"]
    assert report.cited["relations"] + counts["fitted"] / sum(counts.values()) >= 0.9
    assert report.cited["relations"] >= 0.75
    assert report.shares == {"relations": 1.0, "variables": 1.0}


def test_every_relation_reaches_a_target_or_is_library() -> None:
    registry = stack.registry()
    assert audit(registry).unreached_relations == ()
    library = [name for name, relation in registry.relations.items() if relation.library]
    assert len(library) <= 0.1 * len(registry.relations)


def test_no_relation_that_a_target_uses_is_library() -> None:
    """The tag is for relations that no target needs."""
    registry = stack.registry()
    reached = registry.graph.reachable().relations
    assert [name for name in reached if registry.relations[name].library] == []


@pytest.mark.parametrize("target", TARGETS)
def test_headline_variables_are_targets(target: str) -> None:
    assert stack.registry().variables[target].target


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_headline_limits_are_reachable_constraints(constraint: str) -> None:
    registry = stack.registry()
    assert constraint in registry.constraints
    assert constraint in registry.graph.reachable().relations


def test_graph_is_weakly_connected() -> None:
    """Every variable that a target uses is connected to every other by undirected edges."""
    graph = stack.registry().graph
    used = graph.reachable().variables
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
    assert used - seen - through_constraints == set()


def test_verify_finds_no_fault() -> None:
    report = verify(stack.registry())
    assert report.ok, [check for check in report.checks if check.status == "failed"]


def test_citations_name_a_work_and_a_year_or_an_edition() -> None:
    """A citation without any number in it cannot be looked up."""
    registry = stack.registry()
    works = Counter(r.reference.work for r in registry.relations.values() if r.reference.work)
    cited = {r.reference.work for r in registry.relations.values() if r.reference.kind == "cited"}
    timeless = {work for work in cited if not re.search(r"\d", work)}
    # Living documents carry no year.
    assert sum(works[work] for work in timeless) <= 0.1 * sum(works.values()), sorted(timeless)
