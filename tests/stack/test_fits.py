"""Forms of our own are approximations with a validity and a page, not identities."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import stack
from assay.model import Registry
from assay.scenario import built_in

ROOT = Path(__file__).parents[2]
FITS = (
    "software.maturity",
    "kernels.passes.time",
    "kernels.gemm.read_time",
    "kernels.gemm.write_time",
    "kernels.gemm.time",
    "kernels.experts.read_time",
    "kernels.experts.time",
    "kernels.decode.read_time",
    "kernels.decode.time",
    "kernels.prefill.time",
    "collectives.node.all_to_all.eager_time",
    "collectives.node.all_to_all.bulk_time",
    "collectives.node.all_reduce.bulk_time",
)


SHAPE: dict[str, float | str] = {
    "kernels.passes.moved": "1 MB", "kernels.decode.batch": 8, "kernels.decode.context": 1024,
    "kernels.decode.window": 0, "kernels.decode.heads": 32, "kernels.decode.kv_heads": 8,
    "kernels.decode.width": 128, "kernels.decode.value_width": 128,
    "kernels.decode.element": "2 byte", "kernels.decode.kv_element": "2 byte",
    "kernels.decode.footprint": "1 GB",
}  # fmt: skip


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


@pytest.mark.parametrize(
    ("target", "change", "fit"),
    [
        ("kernels.passes.time", {"kernels.passes.moved": "64 GB"}, "kernels.passes.time.fit"),
        ("kernels.decode.time", {"kernels.decode.batch": 4096}, "kernels.decode.time.fit"),
    ],
)
def test_kernel_beyond_the_tables_says_so(
    registry: Registry, target: str, change: dict[str, float | str], fit: str
) -> None:
    given = {**built_in.preset("llama3_8b_h200_serving").given, **SHAPE}
    inside = registry.resolve(target, given)
    assert {verdict.status for verdict in inside.validity} == {"true"}
    outside = registry.resolve(target, {**given, **change})
    assert fit in {v.name for v in outside.validity if v.status == "false"}


def test_collective_beyond_the_tables_says_so(registry: Registry) -> None:
    given = built_in.preset("llama3_8b_8_h100_training").given
    target = "training.data.scatter.time"
    inside = registry.resolve(target, given)
    assert {v.status for v in inside.validity} <= {"true"}
    outside = registry.resolve("software.maturity", {**given, "software.age": "7 yr"})
    assert [v.name for v in outside.validity if v.status == "false"] == ["software.maturity.fit"]
