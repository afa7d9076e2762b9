"""The scenario lab in a browser: its numbers are those of `assay resolve`."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from browser_pages import check_narrow
from test_cone import main_thread_tasks

from assay import stack
from assay.cli.app import run
from assay.scenario import built_in

pytestmark = pytest.mark.slow

SERVING = "llama3_8b_h200_serving"
COST = "econ.cost.per_output_token"
HERO = "[data-testid=hero-A]"
SLIDER = '[data-input="econ.serving.load"] input[type=range]'
FRAME = 16.0
"""Milliseconds of the main thread that a move of a slider may take."""


def opened(open_page: Callable[..., Any], query: str = "", **how: Any) -> Any:
    page = open_page(f"#/lab{query}", **how)
    page.locator(HERO).or_(page.locator(".figure-missing")).first.wait_for(timeout=90_000)
    return page


def figure(target: str, preset: str = SERVING) -> str:
    """What the page should show before it knows the interval: four digits and the unit."""
    variable = stack.registry().variables[target]
    resolution = stack.registry().resolve(
        target, built_in.preset(preset).inputs, built_in.preset(preset).variants, intervals=False
    )
    return variable.figure(resolution.require_value()).text


def test_lab_shows_the_numbers_of_the_command_and_moves_them(
    open_page: Callable[..., Any],
    check_accessibility: Callable[[Any], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = opened(open_page)
    assert page.locator(HERO).inner_text().replace("\n", " ") == figure(COST)
    page.locator("[data-input]").first.wait_for(timeout=60_000)
    check_accessibility(page)
    page.locator(SLIDER).fill("600")
    page.get_by_role("button", name="Copy as command").click()
    command = page.get_by_test_id("shared").inner_text()
    assert command.startswith(f"assay resolve {COST} --preset {SERVING} --assign")
    assert run([*shlex.split(command)[1:], "--no-interval", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["value"]
    variable = stack.registry().variables[COST]
    shown = float(page.locator(HERO).get_attribute("data-value"))
    assert math.isclose(shown, variable.display.to_coherent(value), rel_tol=1e-9)


def test_a_move_of_a_slider_fits_into_a_frame(open_page: Callable[..., Any], browser: Any) -> None:
    """Main-thread work by the processor time of tasks: other programs and painting do not count."""
    page = opened(open_page)
    page.locator("[data-input]").first.wait_for(timeout=60_000)
    page.locator(SLIDER).fill("290")
    # What a slow interpreter compiles in the first moves is not what a move costs.
    for place in range(300, 340, 10):
        page.locator(SLIDER).fill(str(place))
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    moves = range(340, 740, 10)
    for place in moves:
        page.locator(SLIDER).fill(str(place))
    tasks = main_thread_tasks(json.loads(browser.stop_tracing())["traceEvents"])
    longest = tasks[: len(moves)]
    print(f"tasks of a move: median {median(longest):.1f} ms, longest {longest[0]:.1f} ms")
    assert median(longest) < FRAME, f"a move takes {median(longest):.1f} ms"


def test_links_open_scenarios_side_by_side_and_solve(open_page: Callable[..., Any]) -> None:
    page = opened(
        open_page,
        f"?preset={SERVING}&preset2={SERVING}&with2=accelerators/h100_sxm"
        "&set2=econ.serving.load=90 %25&target=serving.throughput",
    )
    assert page.locator("[data-testid=hero-B]").inner_text().split()[1] == "token/s"
    assert page.locator("input[name=scenario]").count() == 2
    page.get_by_role("button", name="Remove scenario B").click()
    page.locator("[data-testid=hero-B]").wait_for(state="detached")
    page.get_by_role("button", name="cost per output token").click()
    page.get_by_role("tab", name="Solve for").click()
    page.get_by_label("Wanted, in $ per million tokens").fill("1")
    page.get_by_label("By changing").select_option("econ.gpu.price")
    page.get_by_role("button", name="Solve").click()
    solved = page.get_by_test_id("solved").inner_text()
    assert "per GPU" in solved
    page.get_by_label("Wanted, in $ per million tokens").fill("0.000001")
    page.get_by_role("button", name="Solve").click()
    assert "The nearest is" in page.get_by_test_id("solved").inner_text()


def test_manufacturing_limits_move_and_are_judged(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "?target=manufacturing.gpu.cost")
    shown = page.locator(HERO).inner_text().replace("\n", " ").replace(",", "")
    assert shown == figure("manufacturing.gpu.cost")
    page.get_by_role("rowheader", name="Manufacturing limits").wait_for()
    assert "violated" not in page.get_by_test_id("constraints").inner_text().replace(
        "no constraint violated", ""
    )
    # Two dies as large as a reticle, beside eight stacks, fit CoWoS-L and not CoWoS-S.
    blackwell = "?with=accelerators/b200_sxm&set=manufacturing.interposer.limit=2700 mm^2"
    page = opened(open_page, f"{blackwell}&preset={SERVING}&target=manufacturing.interposer.area")
    page.get_by_text("compute dies and memory stacks fit the largest interposer").wait_for()
    page = opened(open_page, f"?preset={SERVING}&set=manufacturing.die.area=900 mm^2")
    page.get_by_text("a compute die fits the reticle").wait_for()
    assert "1 violated" in page.get_by_test_id("constraints").inner_text()


def test_missing_inputs_bad_links_and_narrow_screens(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "?preset=llama3_70b_64_h100&target=econ.cost.per_token", width=390)
    assert "more inputs" in page.locator(".figure-missing").first.inner_text()
    assert page.get_by_role("region", name="Missing inputs").locator("li").count() > 3
    check_narrow(page)
    for query in ("?preset=%3Cimg src=x%3E", "?set=a=b", "?target=nothing"):
        page = open_page(f"#/lab{query}")
        page.get_by_text("This link cannot be opened").wait_for(timeout=60_000)
        assert page.locator("img[src=x]").count() == 0
