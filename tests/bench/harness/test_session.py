"""What a result says of the environment: versions of what ran."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.bench.harness import session
from assay.bench.harness.case import Suite
from assay.bench.suites.registry import suite
from assay.runtime import device
from assay.workloads.order_book.rivals import HftbacktestCrate, NanobookCrate

PACKAGES = {
    "Polars": {"polars": None},
    "nanobook": {"nanobook (crate)": "0.19.3"},
    "PyTorch": {"torch": None},
}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (None, {"assay", "python", "numpy", "polars", "nanobook (crate)"}),
        (
            {"python": "3.12.1", "numpy": "2.0.0", "polars": "1.2.3", "torch": "2.9"},
            {"assay", "python", "numpy", "nanobook (crate)"}
            | {"rivals' python", "rivals' numpy", "rivals' polars"},
        ),
        (
            {"python": "3.12.1", "numpy": "2.0.0"},
            {"assay", "python", "numpy", "nanobook (crate)"}
            | {"rivals' python", "rivals' numpy", "rivals' polars"},
        ),
    ],
)
def test_versions_are_of_the_rivals_that_ran(
    make_figure: Callable[..., Any], there: dict[str, str] | None, expected: set[str]
) -> None:
    suite = Suite("orders", lambda _: [], packages=PACKAGES)
    figure = make_figure([1.0], rivals={"Polars": [2.0], "nanobook": [2.0]})
    versions = session._versions(suite, device("cpu"), [figure], there)
    assert set(versions) == expected
    assert versions["nanobook (crate)"] == "0.19.3"


def test_packages_that_rivals_have_elsewhere_are_those_of_the_suite() -> None:
    assert session._elsewhere(Suite("orders", lambda _: [], packages=PACKAGES)) == (
        "polars",
        "torch",
    )
    assert "cuequivariance-torch" in session._elsewhere(suite("protein"))
    assert session._elsewhere(Suite("trace", lambda _: [])) == ("HolisticTraceAnalysis",)


def test_a_suite_that_does_not_say_has_all_that_are_known() -> None:
    versions = session._versions(Suite("gemm", lambda _: []), device("cpu"), [], None)
    assert {"torch", "transformers"} <= set(versions)


def test_versions_of_crates_are_those_that_are_built(root: Path) -> None:
    manifest = (root / "bench" / "rivals" / "order-book" / "Cargo.toml").read_text("utf-8")
    pinned = dict(re.findall(r'^(\w+) = { version = "=([0-9.]+)"', manifest, re.MULTILINE))
    for rival in (NanobookCrate, HftbacktestCrate):
        assert rival.packages == {f"{rival.name} (crate)": pinned[rival.name]}
