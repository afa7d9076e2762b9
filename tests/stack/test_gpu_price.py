"""Price and embodied emissions of a GPU, computed from what it is made of, against published figures."""

from __future__ import annotations

import math

import pytest

from assay.errors import MissingInputsError
from assay.scenario.question import problem_with, read_question

PRESET = "llama3_8b_8_h100_training"
H100 = ("manufacturing/gh100",)
B200 = ("accelerators/b200_sxm", "manufacturing/gb100")
BY_MARGIN = {"econ.gpu.price": "gpu.price_by_margin"}
BY_MARKUP = {"econ.gpu.price": "gpu.price_by_markup"}
BY_AREA = {"carbon.gpu.embodied": "gpu.embodied_by_area"}


def value(
    target: str,
    includes: tuple[str, ...] = H100,
    variant: dict[str, str] | None = None,
    **given: str,
) -> float:
    assign = {name.replace("__", "."): text for name, text in given.items()}
    question = read_question(PRESET, assign, variant, includes)
    return question.resolve(target, intervals=False).require_value()


@pytest.mark.parametrize(("includes", "dollars"), [(H100, 3320), (B200, 6400)])
def test_published_cost_lies_in_the_interval(includes: tuple[str, ...], dollars: float) -> None:
    """Raymond James for the H100 and Epoch AI for the B200."""
    found = read_question(PRESET, None, None, includes).resolve("manufacturing.gpu.cost")
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < dollars < found.upper


def test_price_by_margin_is_that_of_the_street() -> None:
    """Sold at 25,000 to 30,000 USD, and at about 40,000."""
    assert value("econ.gpu.price", H100, BY_MARGIN) == pytest.approx(27.5e3, rel=0.1)
    assert value("econ.gpu.price", B200, BY_MARGIN) == pytest.approx(40e3, rel=0.1)


def test_a_stated_price_stands_unless_a_relation_is_chosen() -> None:
    assert value("econ.gpu.price") == 27500
    assert value("econ.gpu.price", manufacturing__wafer__price="30000 USD") == 27500
    cost = value("manufacturing.gpu.cost")
    assert value("econ.gpu.price", H100, BY_MARGIN) == pytest.approx(cost / 0.12)
    marked = value("econ.gpu.price", H100, BY_MARKUP, econ__gpu__markup="20000 USD/GPU")
    assert marked == pytest.approx(cost + 20000)


def test_a_choice_beside_a_scenario_is_noted_and_a_missing_price_stays_a_missing_input() -> None:
    question = read_question(PRESET, None, BY_MARGIN, H100)
    assert any(
        note.startswith("econ.gpu.price: computed by gpu.price_by_margin")
        for note in question.notes
    )
    absent = read_question(None, {"econ.gpu.margin": "0.8"})
    problem = problem_with(absent.resolve("econ.gpu.price"))
    assert isinstance(problem, MissingInputsError)
    assert problem.names == ("econ.gpu.price",)


@pytest.mark.parametrize(
    ("variant", "given", "low", "high"),
    [(BY_MARGIN, {}, 0.05, 0.12), (BY_MARKUP, {"econ__gpu__markup": "24400 USD/GPU"}, 0.006, 0.01)],
)
def test_elasticity_of_cost_to_the_price_of_wafers(
    variant: dict[str, str], given: dict[str, str], low: float, high: float
) -> None:
    """Published margins: 0.099 where the seller keeps a share, 0.008 where it adds an amount."""
    costs = [
        value(
            "econ.cost.per_token",
            H100,
            variant,
            manufacturing__wafer__price=f"{price} USD",
            **given,
        )
        for price in (16000, 17000)
    ]
    assert low < math.log(costs[1] / costs[0]) / math.log(17 / 16) < high


def test_emissions_of_a_wafer_by_act() -> None:
    """ACT, 5 nm in Taiwan, 97 % abated: (583 x 2.75 + 327.5 + 500) g/cm2, of 706.9 cm2."""
    assert value("manufacturing.footprint.logic.per_area") == pytest.approx(24.3075e3, rel=1e-9)
    assert value("manufacturing.footprint.wafer") == pytest.approx(1718, rel=1e-3)
    assert value("manufacturing.footprint.die") == pytest.approx(45, rel=0.01)


def test_embodied_emissions_by_product_carbon_footprints() -> None:
    """NVIDIA: 1,312 kg a baseboard of eight H100; 0.66 and 0.50 g for an exaFLOP, a ratio of 0.76."""
    h100, b200 = (value("carbon.gpu.embodied", made, BY_AREA) for made in (H100, B200))
    assert h100 == pytest.approx(164, rel=0.3)
    assert b200 / h100 * 989.4 / 2250 == pytest.approx(0.76, rel=0.15)
    assert value("carbon.gpu.embodied") == 164
