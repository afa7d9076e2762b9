"""Costs against published bills, closed forms of finance, and figures worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assay import stack
from assay.model.inputs import read_inputs

from .sites import COST_INPUTS, JOB, SITE

HOUR, DAY, YEAR = 3600.0, 86400.0, 31557600.0

Given = dict[str, float | str]
AT_PEAK = {"training.compute_time": "training.at_peak", "econ.run.duration": "run.uninterrupted"}


def value(target: str, given: Given, variants: dict[str, str] | None = None) -> float:
    return stack.registry().resolve(target, given, variants=variants or {}).require_value()


# DeepSeek-V3 Technical Report, Table 1: thousands of H800 hours at 2 USD, by phase.
@pytest.mark.parametrize(
    ("hours", "millions"), [(2664e3, 5.328), (119e3, 0.238), (5e3, 0.01), (2788e3, 5.576)]
)
def test_rent_of_deepseek_v3(hours: float, millions: float) -> None:
    given: Given = {
        "training.gpus": "2048 GPU",
        "training.time_to_train": hours / 2048 * HOUR,
        "training.run_yield": 1,
        "econ.rent.price": "2 USD/(h*GPU)",
    }
    found = value("econ.run.total_cost", given, {"econ.run.total_cost": "run.rented"})
    assert found == pytest.approx(millions * 1e6, rel=1e-12)


def test_a_day_of_deepseek_serving() -> None:
    """DeepSeek-V3/R1 Inference System Overview: 226.75 nodes of 8 GPUs at 2 USD are 87,072 USD."""
    given: Given = {"serving.gpus": 226.75 * 8, "econ.rent.price": "2 USD/(h*GPU)"}
    rate = value("econ.serving.rate", given, {"econ.serving.rate": "serving.rented"})
    assert rate * DAY == pytest.approx(87072, rel=1e-12)
    # 168e9 output tokens left that day: about half a dollar a million.
    given |= {"serving.throughput": 168e9 / DAY, "econ.serving.load": 1}
    per_token = value("econ.cost.per_output_token", given, {"econ.serving.rate": "serving.rented"})
    assert per_token == pytest.approx(87072 / 168e9, rel=1e-12)


def test_energy_of_pythia_70m() -> None:
    """70.398 M weights, 2.99893e11 tokens, 8 GPUs at 67 TFLOP/s, 10.2 kW, 0.0813 USD/kWh.

    The weights are stated to five digits, so the rest holds to five.
    """
    given: Given = {
        "training.flops_per_step": 6 * 70.398e6 * 2e6,
        "training.tokens_per_step": "2e6 token",
        "training.total_tokens": "2.99893e11 token",
        "training.gpus": "8 GPU",
        "training.exposed_communication_time": 0,
        "gpu.power_limited_peak_flops": "67 TFLOP/(s*GPU)",
        "econ.job.dc_power": "10.2 kW",
        "econ.electricity.price": "0.0813 USD/kWh",
        "econ.capex.rate": 0,
    }
    assert value("training.tokens_per_second", given, AT_PEAK) == pytest.approx(1_268_976, rel=3e-6)
    assert value("econ.run.power_cost", given, AT_PEAK) == pytest.approx(54.4378, rel=3e-6)
    assert value("econ.cost.per_token", given, AT_PEAK) == pytest.approx(1.815243e-10, rel=3e-6)


def recovery(interest: float, years: float, residual: float = 0.0) -> float:
    given: Given = {
        "econ.interest": interest,
        "econ.machines.lifetime": years * YEAR,
        "econ.machines.residual_share": residual,
    }
    return value("econ.machines.recovery", given)


def test_payment_that_numpy_financial_prints() -> None:
    """numpy_financial.pmt(0.075 / 12, 12 * 15, 200000) = -1854.0247200054619."""
    assert 200_000 * recovery(0.075 / 12, 180) == pytest.approx(1854.0247200054619, rel=1e-12)


@pytest.mark.parametrize(("interest", "years", "residual"), [(0.08, 5, 0.1), (0.03, 15, 0.4)])
def test_present_value_of_payments_and_residual_equals_price(
    interest: float, years: int, residual: float
) -> None:
    payment = recovery(interest, years, residual)
    worth = sum(payment / (1 + interest) ** year for year in range(1, years + 1))
    assert worth + residual / (1 + interest) ** years == pytest.approx(1.0, rel=1e-12)


def test_zero_interest_is_straight_line_amortization() -> None:
    assert recovery(0.0, 4, 0.2) == pytest.approx(0.2)
    assert recovery(1e-9, 4, 0.2) == pytest.approx(0.2, rel=1e-6)


def test_bill_of_a_month() -> None:
    """1 MW at most, 0.8 MW on average: 0.06 USD by kWh and 12 USD by kW, and 5 % taxes."""
    energy = 800 * 730.5
    bill = (energy * 0.06 + 1000 * 12) * 1.05
    assert value("econ.electricity.price", COST_INPUTS) * 3.6e6 == pytest.approx(bill / energy)


def test_site_costs_match_hand_calculation() -> None:
    given: Given = {**SITE, **COST_INPUTS}
    machines = 1024 * 25000 + 128 * 60000 + 48 * 30000 + 4096 * 1000 + 32 * 8000
    assert value("econ.capex.machines", given) == pytest.approx(machines)
    site = value("cluster.design_power", SITE) * 11
    people = 12 * 120000
    water = value("thermal.water.makeup", SITE) * YEAR * 2
    yearly = (
        machines * (0.9 * 0.08 / (1 - 1.08**-5) + 0.1 * 0.08)
        + site * (0.8 * 0.08 / (1 - 1.08**-15) + 0.2 * 0.08)
        + 0.03 * (machines + site)
        + people
        + water
    )
    assert value("econ.site.rate", given) * YEAR == pytest.approx(yearly, rel=1e-12)
    by_gpu_hour = yearly / (1024 * 0.85) / (YEAR / HOUR)
    assert value("econ.gpu.owned_rate", given) * HOUR == pytest.approx(by_gpu_hour, rel=1e-12)
    # A GPU of this kind is let for one to three dollars an hour.
    assert 1.0 < by_gpu_hour < 3.0


def test_cost_of_a_run_is_its_hardware_and_its_power() -> None:
    given: Given = {**SITE, **COST_INPUTS, **JOB}
    hours = 512 * 20 * 24 / 0.9
    hardware = value("econ.gpu.owned_rate", given) * HOUR * hours
    power = value("thermal.dc.power", given) / 2 * 20 * DAY / 0.9
    price = value("econ.electricity.price", given)
    assert value("econ.run.total_cost", given) == pytest.approx(hardware + power * price)
    assert value("econ.cost.per_token", given) == pytest.approx((hardware + power * price) / 1e12)
    assert value("econ.cost.per_step", given) == pytest.approx((hardware + power * price) / 1e5)


@pytest.mark.parametrize("power", ["300 W/GPU", "700 W/GPU"])
def test_rent_including_power_adds_no_power_cost(power: str) -> None:
    given: Given = {**SITE, **COST_INPUTS, **JOB, "econ.rented": 1, "gpu.power": power}
    rented = 2 * 512 * 20 * 24 / 0.9
    assert value("econ.run.total_cost", given) == pytest.approx(rented, rel=1e-12)
    short = value("econ.run.total_cost", given, {"econ.run.total_cost": "run.rented"})
    assert short == pytest.approx(rented, rel=1e-12)


def test_rent_excluding_power_adds_power_cost() -> None:
    given: Given = {**SITE, **COST_INPUTS, **JOB, "econ.rented": 1, "econ.rent.includes_power": 0}
    expected = 2 * 512 * 20 * 24 / 0.9 + value("econ.run.power_cost", given)
    assert value("econ.run.total_cost", given) == pytest.approx(expected, rel=1e-12)


def test_serving_and_training_pay_the_same_for_a_gpu() -> None:
    given: Given = {
        **SITE,
        **COST_INPUTS,
        **JOB,
        "serving.gpus": "512 GPU",
        "serving.throughput": "2e6 token/s",
        "econ.serving.load": 0.5,
    }
    run = value("econ.run.total_cost", given) / (20 * DAY / 0.9)
    assert value("econ.serving.rate", given) == pytest.approx(run, rel=1e-12)
    assert value("econ.cost.per_output_token", given) == pytest.approx(run / 1e6, rel=1e-12)
    energy = value("econ.job.dc_power", given) / 1e6
    assert value("econ.energy.per_output_token", given) == pytest.approx(energy, rel=1e-12)


def test_job_larger_than_site_violates_constraint() -> None:
    given: Given = {**SITE, **COST_INPUTS, **JOB, "training.gpus": "2048 GPU"}
    violated = stack.registry().resolve("econ.cost.per_token", given).violated
    assert "econ.job.fits_site" in {verdict.name for verdict in violated}


def test_owned_and_rented_cost_come_from_one_tape() -> None:
    """`econ.rented` is an input like any other, so that one tape runs over both."""
    registry = stack.registry()
    given: Given = {**SITE, **COST_INPUTS, **JOB}
    cost = registry.compile(inputs=list(given), outputs=["econ.run.total_cost"])
    point = {**read_inputs(registry, given).values, "econ.rented": np.array([0.0, 1.0])}
    owned, rented = cost(point)[0]
    assert owned == pytest.approx(value("econ.run.total_cost", given), rel=1e-12)
    assert rented == pytest.approx(2 * 512 * 20 * 24 / 0.9, rel=1e-12)
    assert owned != pytest.approx(rented, rel=0.01)
