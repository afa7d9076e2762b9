from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import check_narrow, check_picture

pytestmark = pytest.mark.slow

STACK = "Layers from the site down to the transistor"


def opened(open_page: Callable[..., Any], address: str = "#/atlas", **how: Any) -> Any:
    page = open_page(address, **how)
    page.get_by_role("list", name=STACK).wait_for(timeout=60_000)
    return page


def test_slider_walks_from_the_site_to_the_transistor(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page)
    slider = page.get_by_role("slider", name="Layer of the stack")
    slider.press("End")
    page.wait_for_url("**#/atlas/physics**")
    slider.press("ArrowLeft")
    page.get_by_role("heading", name="logic", exact=True).wait_for()
    check_accessibility(page)


def test_layer_by_its_address_has_counts_coverage_and_borders(
    open_page: Callable[..., Any],
) -> None:
    page = opened(open_page, "#/atlas/gpu")
    page.get_by_role("heading", name="gpu", exact=True).wait_for()
    panel = page.locator(".atlas-panel").inner_text()
    assert "cited" in panel
    assert "Goes out to" in panel
    page.get_by_text("Variables of this layer").click()
    page.get_by_role("region", name="Variables of gpu").get_by_role(
        "link", name="gpu.peak_flops"
    ).wait_for()


def test_pressure_of_a_target_spreads_with_distance(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page, "#/atlas/serving?target=econ.cost.per_output_token")
    reach = page.get_by_role("slider", name="Relations from the target")
    # Less motion is asked for: the whole spread is shown at once.
    assert reach.input_value() == reach.get_attribute("max")
    whole = page.locator(".atlas-layers .is-chosen .number").inner_text()
    reach.press("Home")
    assert page.locator(".atlas-layers .is-chosen .number").inner_text().startswith("0 of")
    assert not whole.startswith("0 of")
    check_accessibility(page)
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_role("button", name="Play the spread").click()
    page.wait_for_function(
        "(most) => document.querySelector('.atlas-wave input').value === most",
        arg=reach.get_attribute("max"),
        timeout=30_000,
    )
    assert page.locator(".atlas-layers .is-chosen .number").inner_text() == whole


def test_target_that_does_not_exist_is_an_error(open_page: Callable[..., Any]) -> None:
    page = open_page("#/atlas?target=econ.nothing", may_fail=True)
    page.get_by_text('unknown variable "econ.nothing"').wait_for()


def test_layer_without_relations_says_so(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/atlas/physics")
    page.get_by_text("This layer has no relations").wait_for()
    page.get_by_text("Nothing crosses its borders").wait_for()


def test_atlas_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/atlas/serving", width=390, height=844)
    check_narrow(page)


def test_atlas_looks_as_it_did(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, "#/atlas/gpu?target=thermal.dc.pue")
    page.get_by_role("heading", name="Across its borders").wait_for()
    check_picture(page, "atlas")
