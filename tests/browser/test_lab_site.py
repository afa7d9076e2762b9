"""The lab of an exported site, opened from files: the numbers of `assay resolve`, without a server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.scenario.lab import chosen_scenario
from assay.ui import site
from assay.ui.api import lab

pytestmark = pytest.mark.slow

SERVING = "llama3_8b_h200_serving"
COST = "econ.cost.per_output_token"
HERO = "[data-testid=hero-A]"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A site with the lab of one scenario and few entries."""
    entries = {
        "accelerators": [["accelerators/h100_sxm", ""]],
        "models": [["models/llama3_70b", ""]],
    }
    folder: Path = tmp_path_factory.mktemp("exported") / "site"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "OFFERED", tuple(entries))
        patch.setattr(lab.lab, "offered_entries", lambda: entries)
        patch.setattr(site, "answers", lab.exported)
        site.export_site(folder, [SERVING])
    lab._model.cache_clear()
    return (folder / "index.html").as_uri()


@pytest.fixture
def page(browser: Any, exported: str) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(f"{exported}#/lab")
    opened.locator(HERO).wait_for(timeout=90_000)
    yield opened
    context.close()
    assert problems == []


def shown(page: Any) -> float:
    return float(page.locator(HERO).get_attribute("data-value"))


def resolved(*entries: str) -> float:
    scenario = chosen_scenario(lab.stack.registry(), SERVING, entries, {})
    value = scenario.registry.resolve(COST, scenario.inputs, scenario.variants, intervals=False)
    return value.require_value()


def test_an_exported_lab_agrees_and_says_what_it_lacks(page: Any) -> None:
    assert math.isclose(shown(page), resolved(), rel_tol=1e-9)
    choices = page.locator(".lab-choices").first
    choices.get_by_label("Accelerator").select_option("accelerators/h100_sxm")
    page.get_by_text("on h100_sxm").first.wait_for(timeout=30_000)
    assert math.isclose(shown(page), resolved("accelerators/h100_sxm"), rel_tol=1e-9)
    choices.get_by_label("Model").select_option("models/llama3_70b")
    page.get_by_text("one entry changed at a time").wait_for(timeout=30_000)
