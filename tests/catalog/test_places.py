"""Places: tariffs and grids with sources of their own, and gaps that are named."""

import pytest

from assay.catalog import entries
from assay.scenario.questions.resolving import resolve

SERVING = "llama3_8b_h200_serving"
WATER = "carbon.water.per_output_token"


@pytest.mark.parametrize(
    ("place", "low", "high"),
    [("germany", 0.19, 0.27), ("france", 0.12, 0.20), ("japan", 0.15, 0.22), ("singapore", 0.16, 0.24)],
)  # fmt: skip
def test_a_place_has_a_tariff_and_a_grid(place: str, low: float, high: float) -> None:
    """Industrial prices of 2024: Germany 0.19 USD/kWh and more, the EU 0.20 EUR/kWh (Prometheus
    Group), Japan 0.187 USD/kWh, Singapore 21.5 to 28.1 SGD cents."""
    includes = [f"tariffs/{place}", f"grids/{place}"]
    price, power = (
        resolve(target, preset=SERVING, includes=includes, intervals=False).resolution.value
        for target in ("econ.electricity.price", "carbon.per_output_token")
    )
    assert price is not None
    assert power is not None
    assert low <= price * 3.6e6 <= high


@pytest.mark.parametrize(
    ("grid", "liters"),
    [
        ("norway", 6.6633), ("poland", 2.5135), ("germany", 1.947), ("france", 3.6737),
        ("brazil", 18.6033), ("taiwan", 1.4886), ("world", 3.908),
    ],
)  # fmt: skip
def test_water_is_that_of_the_grid(grid: str, liters: float) -> None:
    """Water of electricity by country, EcoLogits after the World Resources Institute."""
    water = entries.read("grids", grid).given["carbon.grid.water"]
    assert water * 1e3 * 3.6e6 == pytest.approx(liters, rel=1e-3)


def test_water_differs_between_grids() -> None:
    values = {
        grid: resolve(WATER, preset=SERVING, includes=[f"grids/{grid}"], intervals=False)
        for grid in ("norway", "us_texas", "poland")
    }
    water = {grid: answer.resolution.value or 0 for grid, answer in values.items()}
    assert water["norway"] > 1.5 * water["us_texas"]
    assert water["us_texas"] > 1.1 * water["poland"]


@pytest.mark.parametrize("grid", ["singapore", "south_africa"])
def test_water_that_no_source_has_is_a_named_gap(grid: str) -> None:
    answer = resolve(WATER, preset=SERVING, includes=[f"grids/{grid}"], intervals=False)
    assert [gap.variable.name for gap in answer.resolution.missing] == ["carbon.grid.water"]
    assert any(
        note.startswith("carbon.grid.water is not known: the source of") for note in answer.notes
    )


def test_no_grid_takes_the_mean_of_another_country_in_silence() -> None:
    for entry in entries.entries("grids"):
        water = entry.values.get("carbon.grid.water")
        if water is None:
            assert "carbon.grid.water" in entry.facts["gaps"]
        elif not entry.name.startswith("us_"):
            assert water.kind == "published", entry.path
