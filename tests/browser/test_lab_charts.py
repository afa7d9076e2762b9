"""The lab's charts, four scenarios side by side, and what can be kept and handed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser_pages import check_narrow, check_picture
from test_lab import COST, HERO, SERVING, figure, opened

from assay import stack
from assay.cli.app import run

pytestmark = pytest.mark.slow


def test_tornado_lists_what_the_command_ranks_first(
    open_page: Callable[..., Any],
    check_accessibility: Callable[[Any], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = opened(open_page)
    page.get_by_role("tab", name="Tornado").click()
    rows = page.get_by_role("region", name="Tornado").locator("tbody tr")
    rows.first.wait_for(timeout=60_000)
    widths = [
        float(one.evaluate("(bar) => bar.getBoundingClientRect().width"))
        for one in page.locator(".lab-bar").all()
    ]
    assert widths == sorted(widths, reverse=True)
    assert run(["sensitivity", COST, "--preset", SERVING, "--json"]) == 0
    ranked = json.loads(capsys.readouterr().out)["inputs"]
    swings = {
        one["input"]: abs(one["target_at_range"][1] - one["target_at_range"][0])
        for one in ranked
        if one["uncertain"]
    }
    expected = sorted(swings, key=lambda name: -swings[name])
    shown = [one.get_attribute("title") for one in rows.locator("th span").all()]
    assert shown[:8] == expected[:8]
    ends = next(one["target_at_range"] for one in ranked if one["input"] == shown[0])
    variable = stack.registry().variables[COST]
    texts = [variable.figure(variable.display.to_coherent(end)).text for end in ends]
    assert rows.first.locator(".unseen").inner_text() == " to ".join(texts)
    check_accessibility(page)


def test_front_of_two_inputs_has_no_beaten_point(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page)
    page.get_by_role("tab", name="Pareto").click()
    page.locator(".lab-chart circle.best").first.wait_for(timeout=60_000)
    best = page.locator(".lab-chart circle.best").all()
    places = sorted(
        (float(one.get_attribute("cx")), float(one.get_attribute("cy"))) for one in best
    )
    # More throughput is at the right, less cost below: a front rises towards the upper cost.
    assert all(later[1] <= earlier[1] for earlier, later in pairwise(places))
    assert page.locator(".lab-chart circle").count() > len(best)
    check_accessibility(page)


def test_four_scenarios_stand_side_by_side(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, width=1280)
    for letter in "BCD":
        page.get_by_role("button", name="Compare with a copy").click()
        page.locator(f"[data-testid=hero-{letter}]").wait_for()
    assert page.get_by_role("button", name="Compare with a copy").count() == 0
    page.get_by_label("Accelerator").select_option(label="NVIDIA H100 SXM 80GB")
    page.locator(".lab-change").last.wait_for()
    assert page.locator(HERO).inner_text().replace("\n", " ").startswith("$0.2")
    assert page.locator(".lab-outputs thead th").count() == 5
    check_narrow(page)
    # The address holds all four.
    page.reload()
    page.locator("[data-testid=hero-D]").wait_for(timeout=60_000)
    assert page.locator("input[name=scenario]").count() == 4


def test_saved_scenario_comes_back_and_an_exported_one_is_read(
    open_page: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = opened(open_page, f"?preset={SERVING}&set=econ.serving.load=80 %25")
    changed = page.locator(HERO).inner_text().split()[0]
    page.get_by_role("button", name="Save").click()
    page.get_by_text('saved as "').wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert run(["resolve", COST, "--preset", str(path), "--no-interval", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["value"]
    variable = stack.registry().variables[COST]
    assert changed[:5] in variable.figure(variable.display.to_coherent(value)).text
    page.evaluate("location.hash = '#/lab'")
    page.get_by_text(figure(COST).split()[0]).first.wait_for(timeout=60_000)
    page.locator(".lab-saved summary").click()
    page.locator(".lab-saved li button").first.click()
    page.locator(HERO, has_text=changed).wait_for()


@pytest.mark.parametrize("dark", [False, True])
def test_lab_looks_as_it_did(open_page: Callable[..., Any], dark: bool) -> None:
    page = opened(open_page, dark=dark)
    page.get_by_text("90 %: ").first.wait_for(timeout=60_000)
    page.locator("[data-input]").first.wait_for(timeout=60_000)
    check_picture(page, f"lab-{'dark' if dark else 'light'}")


def test_lab_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, width=390, height=844)
    page.get_by_text("90 %: ").first.wait_for(timeout=60_000)
    check_narrow(page)
    # A value is in view beside its name, without scrolling sideways.
    box = page.locator(".lab-value").first.bounding_box()
    assert box["x"] + box["width"] <= 390
    for tab in ("Tornado", "Pareto", "Solve for"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(500)
        check_narrow(page)
