"""Offers of accelerators: one provider's prices, the same for every command."""

import pytest

from assay.catalog import entries, offers
from assay.errors import InputError
from assay.planner.questions import predict_step, sweep_steps
from assay.scenario.questions.estimating import estimate
from assay.scenario.questions.minimizing import MinimizeEntriesAnswer, minimize
from assay.scenario.questions.resolving import resolve
from assay.scenario.questions.sweeping import sweep

SERVING = "llama3_8b_h200_serving"
COST = "econ.cost.per_output_token"
ALL = [
    offer for name in entries.names("accelerators") for offer in offers.offers(name)
]  # fmt: skip


def test_every_rent_of_the_catalog_names_its_offer() -> None:
    for group in ("rents", "prices"):
        for entry in entries.entries(group):
            if offers.RENT in entry.values:
                provider, _, terms = str(entry.facts["offer"]).partition(":")
                assert provider
                assert terms in offers.TERMS, entry.path


@pytest.mark.parametrize("provider", ["nebius", "verda"])
def test_spot_is_cheaper_than_on_demand(provider: str) -> None:
    prices = {(o.accelerator, o.terms): o.usd_per_hour for o in ALL if o.provider == provider}
    spot = [accelerator for accelerator, terms in prices if terms == "spot"]
    assert len(spot) >= 2
    for accelerator in spot:
        ratio = prices[accelerator, "spot"] / prices[accelerator, "on-demand"]
        assert 0.3 < ratio < 0.7


@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm", "b200_sxm"])
@pytest.mark.parametrize("offer", [None, "runpod", "aws:on-demand"])
def test_predict_and_resolve_rent_at_the_same_price(gpu: str, offer: str | None) -> None:
    step = predict_step("llama-3.1-8b", gpu, offer=offer)
    scenario = resolve(
        offers.RENT, preset=SERVING, includes=[f"accelerators/{gpu}"], offer=offer, intervals=False
    )
    assert scenario.resolution.value is not None
    hourly = 3600 * scenario.resolution.value
    usd, rate = (
        step.graph.totals[name].value for name in ("dollars_per_token", "tokens_per_second")
    )
    assert usd * rate * 3600 == pytest.approx(hourly)
    assert step.graph.rent.startswith(f"{hourly:.4g} USD/h, {offer or 'runpod'}".split(":")[0])


def test_a_comparison_is_of_one_provider_and_says_which() -> None:
    """At RunPod 3.29, 4.59 and 6.79 USD an hour, at AWS 6.88, 7.91 and 14.24 (SkyPilot catalog,
    August 2026): H100 was at the median of 16 clouds, the others at a list price of one."""
    gpus = ["h100_sxm", "h200_sxm", "b200_sxm"]
    for offer, rents in ((None, (3.29, 4.59, 6.79)), ("aws", (6.88, 7.91, 14.24))):
        answer = sweep_steps("llama-3.1-8b", gpus, {}, offer=offer, sequences=64)
        for rent, cost, rate in zip(
            rents, answer.usd_per_million, answer.steps.tokens_per_second, strict=True
        ):
            assert cost == pytest.approx(rent / 3600 / float(rate) * 1e6)
        assert not [note for note in answer.notes if "unlike" in note]
        assert all(
            any(f"rent of {rent:g} USD/h" in note for note in answer.notes) for rent in rents
        )


def test_unlike_offers_are_named_with_one_that_has_all() -> None:
    mixed = sweep_steps("llama-3.1-8b", ["h100_sxm", "gh200"], {}, sequences=8)
    assert any(
        note.startswith("rents of unlike offers: h100_sxm 3.29 USD/h, runpod:on-demand; gh200 2.29")
        and note.endswith("--offer lambda:on-demand has all of them")
        for note in mixed.notes
    )


def test_an_offer_that_the_catalog_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(InputError, match="no price of h100_sxm at aws:spot") as caught:
        predict_step("llama-3.1-8b", "h100_sxm", offer="aws:spot")
    assert "nebius:spot" in str(caught.value.hint)
    with pytest.raises(InputError, match="expected terms on-demand, reserved, spot"):
        resolve(COST, preset=SERVING, offer="aws:weekly")
    with pytest.raises(InputError, match="no accelerator to rent"):
        resolve(COST, offer="aws")


def test_an_offer_rents_what_the_scenario_owns() -> None:
    answer = resolve(COST, preset=SERVING, offer="nebius:spot", intervals=False)
    owned = resolve(COST, preset=SERVING, intervals=False)
    dear = resolve(COST, preset=SERVING, offer="nebius", intervals=False)
    values = [each.resolution.value for each in (owned, answer, dear)]
    assert values[2] / values[1] == pytest.approx(4.5 / 2.45)  # type: ignore[operator]
    assert values[0] not in values[1:]
    assert any("nebius:spot (may be pre-empted at any time" in note for note in answer.notes)


def test_a_winner_on_borrowed_constants_says_so_beside_it() -> None:
    over = ["accelerators=h100_sxm,mi300x"]
    answer = minimize(COST, over, preset=SERVING, offer="runpod")
    assert isinstance(answer, MinimizeEntriesAnswer)
    assert answer.entries == ("mi300x",)
    assert answer.caveat == "mi300x has no kernel measurements: constants of h100_sxm, borrowed"
    assert [each.caveat for each in answer.every] == ["", answer.caveat]
    assert any(note.startswith("rents are those of runpod:on-demand") for note in answer.notes)


def test_a_sweep_of_owned_gpus_names_their_prices() -> None:
    answer = sweep([COST], ["accelerators=h100_sxm,h200_sxm"], preset=SERVING)
    assert any(
        note.startswith("prices of GPUs: h100_sxm 27500 USD/GPU (published, 2023-08); h200_sxm")
        for note in answer.notes
    )


@pytest.mark.parametrize(
    ("gpu", "low", "high"),
    [
        ("l40s", 7000, 10000), ("l4", 2345, 2500), ("h20_sxm", 12000, 15000),
        ("gb300", 3e6 / 72, 4e6 / 72), ("b300_sxm", (3e5 - 8e4) / 8, (3.5e5 - 8e4) / 8),
        ("b200_sxm", 35000, 40000), ("t4", 1880, 1880),
    ],
)  # fmt: skip
def test_purchase_prices_are_within_the_published_range(gpu: str, low: float, high: float) -> None:
    price = entries.read("prices", gpu)
    assert price.values["econ.gpu.price"].kind == "published"
    assert low <= price.given["econ.gpu.price"] <= high


@pytest.mark.parametrize("gpu", ["l40s", "l4", "h20_sxm", "b300_sxm", "gb300"])
def test_an_owned_hour_has_a_cost(gpu: str) -> None:
    answer = resolve(
        "econ.gpu.owned_rate", preset=SERVING, includes=[f"accelerators/{gpu}"], intervals=False
    )
    assert answer.problem is None
    assert 0.1 / 3600 < (answer.resolution.value or 0) < 5 / 3600


def test_a_price_that_nobody_publishes_is_a_named_gap() -> None:
    answer = resolve("econ.gpu.owned_rate", preset=SERVING, includes=["accelerators/gh200"])
    assert "econ.gpu.price" in [gap.variable.name for gap in answer.resolution.missing]
    assert any(
        note.startswith("econ.gpu.price is not known: NVIDIA publishes") for note in answer.notes
    )


def test_an_estimate_is_at_the_offer() -> None:
    """512 GPUs for the run's duration at 2.15 USD an hour, pre-emptible."""
    answer = estimate("llama-3.1-8b", "h100_sxm", "1T", "germany", gpus=512, offer="nebius:spot")
    values = {t.target: t.resolution.value for t in answer.estimate.report.targets if t.resolution}
    hours = (values["econ.run.duration"] or 0) / 3600
    assert values["econ.run.total_cost"] == pytest.approx(512 * hours * 2.15)
    assert any("nebius:spot (may be pre-empted" in note for note in answer.notes)
