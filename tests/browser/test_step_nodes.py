"""The predicted graph beside the observed one, node by node, in the pages of traces and runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import RUN, check_narrow, check_picture
from decode_traces import config, replayed

from assay.cli.diagnose import diagnose_command
from assay.cli.output import json_text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `assay diagnose` says of a trace whose times are known."""
    folder = tmp_path_factory.mktemp("nodes")
    trace = replayed().save(folder / "trace.json")
    shapes = str(config(folder))
    report = diagnose_command(str(trace), model=shapes, gpu="h200", context=64, as_json=True)
    data: dict[str, Any] = json.loads(json_text(report))
    return data


def opened(open_page: Callable[..., Any], diagnosis: Any, **how: Any) -> Any:
    page = open_page("#/docs", **how)
    page.locator("article h1").wait_for()
    page.route("**/diagnosis", lambda route: route.fulfill(json=diagnosis))
    page.evaluate("location.hash = '#/runs/trace/made/diagnosis'")
    page.locator(".step-table").wait_for()
    return page


def texts(page: Any, row: str) -> list[str]:
    cells = page.locator("tr", has=page.get_by_role("button", name=row, exact=True)).locator("td")
    found: list[str] = cells.all_inner_texts()
    return found


def test_every_operation_has_both_times_and_their_difference(
    open_page: Callable[..., Any],
    check_accessibility: Callable[[Any], None],
    diagnosis: dict[str, Any],
) -> None:
    page = opened(open_page, diagnosis)
    operations = {node["operation"] for node in diagnosis["nodes"]}
    assert page.locator(".step-operation").count() == len(operations)
    mine = [node for node in diagnosis["nodes"] if node["operation"] == "qkv_proj"]
    predicted, observed, difference = texts(page, "qkv_proj")[:3]
    # Eight layers of 5 us each, by the writer of the trace.
    assert observed == "40 \u00b5s"
    expected = sum(node["expected_ns"] for node in mine) / 1e3
    assert float(predicted.split()[0]) == pytest.approx(expected, rel=5e-3)
    assert difference.startswith("\u2212")
    page.get_by_role("button", name="8 layers of qkv_proj").click()
    layers = page.locator(".step-layer")
    assert layers.count() == 8
    assert "5 \u00b5s" in layers.nth(3).inner_text()
    assert texts(page, "select_logits")[1] == "did not run"
    boxes = [node for node in diagnosis["nodes"] if node["start_ns"] is not None]
    assert page.locator(".step-box").count() == len(diagnosis["nodes"]) + len(boxes)
    check_accessibility(page)


def test_a_term_of_the_waterfall_shows_its_nodes(
    open_page: Callable[..., Any], diagnosis: dict[str, Any]
) -> None:
    page = opened(open_page, diagnosis)
    page.get_by_role("button", name="launch gaps").click()
    page.get_by_role("columnheader", name="launch gaps").wait_for()
    gaps = {}
    for node in diagnosis["nodes"]:
        name = node["operation"]
        gaps[name] = gaps.get(name, 0) + node["terms"].get("launch_gaps", 0)
    first = page.locator(".step-operation").first.inner_text()
    assert first == max(gaps, key=lambda name: gaps[name])
    assert sum(gaps.values()) == next(
        term["ns"] for term in diagnosis["waterfall"] if term["name"] == "launch_gaps"
    )
    page.get_by_role("button", name="launch gaps").click()
    page.get_by_role("columnheader", name="launch gaps").wait_for(state="detached")


def test_one_layer_joins_predicted_and_observed_nodes(
    open_page: Callable[..., Any], diagnosis: dict[str, Any]
) -> None:
    page = opened(open_page, diagnosis)
    assert page.locator(".step-joints line").count() == 0
    page.get_by_label("Part of the step").select_option("3")
    page.locator(".step-joints line").first.wait_for()
    assert page.locator(".step-joints line").count() == 10
    page.locator(".step-box").nth(1).hover()
    said = page.locator(".step-pointed").inner_text()
    assert said.startswith("layers.3.qkv_proj")
    assert "observed 5 \u00b5s" in said
    page.get_by_role("button", name="qkv_proj", exact=True).click()
    assert page.locator(".step-box.dimmed").count() == 18


def test_run_with_a_plan_of_nodes(open_page: Callable[..., Any], diagnosis: dict[str, Any]) -> None:
    page = open_page("#/runs")
    page.get_by_role("link", name="2026-11-16 17:19").wait_for()

    def predicted(route: Any) -> None:
        data = route.fetch().json()
        data["plan"] |= {"nodes": diagnosis["nodes"], "waterfall": diagnosis["waterfall"]}
        route.fulfill(json=data)

    page.route("**/plan", predicted)
    page.evaluate(f"location.hash = '#/runs/{RUN}'")
    page.locator(".step-table").wait_for()


def test_names_of_operations_are_text(
    open_page: Callable[..., Any], diagnosis: dict[str, Any]
) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    nodes = [{**diagnosis["nodes"][1], "operation": hostile}]
    page = opened(open_page, {**diagnosis, "nodes": nodes})
    page.get_by_role("button", name=hostile, exact=True).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_nodes_fit_a_narrow_screen(
    open_page: Callable[..., Any], diagnosis: dict[str, Any]
) -> None:
    page = opened(open_page, diagnosis, width=390, height=844)
    check_narrow(page)


@pytest.mark.parametrize("dark", [False, True])
def test_nodes_look_as_they_did(
    open_page: Callable[..., Any], diagnosis: dict[str, Any], dark: bool
) -> None:
    page = opened(open_page, diagnosis, dark=dark, height=1200)
    check_picture(page, f"step-nodes-{'dark' if dark else 'light'}")
