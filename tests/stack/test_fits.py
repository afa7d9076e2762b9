"""Forms of our own are approximations with a validity and a page, not identities."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import stack
from assay.model import Registry

ROOT = Path(__file__).parents[2]
FITS = (
    "software.maturity",
    "collectives.node.all_to_all.eager_time",
    "collectives.node.all_to_all.bulk_time",
    "collectives.node.all_reduce.bulk_time",
)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return stack.registry()


@pytest.mark.parametrize("name", FITS)
def test_fit_is_an_approximation_with_validity(registry: Registry, name: str) -> None:
    (relation,) = registry.variables[name].defining_equations
    assert not relation.is_identity
    assert relation.validity is not None
    assert relation.reference.kind == "fitted"


def test_pages_of_fits_exist(registry: Registry) -> None:
    things = [*registry.relations.values(), *registry.variables.values()]
    pages = {t.reference.work for t in things if t.reference.kind == "fitted"}
    assert pages
    assert [page for page in sorted(pages) if not (ROOT / page).is_file()] == []


def test_identities_cite_no_fit(registry: Registry) -> None:
    """What follows from a fit alone is an approximation; sums of fitted times are identities."""
    found = [
        name
        for name, relation in registry.relations.items()
        if relation.is_identity and relation.reference.kind == "fitted"
    ]
    assert found == []


def test_collective_beyond_the_tables_says_so(registry: Registry) -> None:
    given = stack.preset("llama3_8b_8_h100_training").given
    target = "training.data.scatter.time"
    inside = registry.resolve(target, given)
    assert {v.status for v in inside.validity} <= {"true"}
    outside = registry.resolve("software.maturity", {**given, "software.age": "7 yr"})
    assert [v.name for v in outside.validity if v.status == "false"] == ["software.maturity.fit"]
