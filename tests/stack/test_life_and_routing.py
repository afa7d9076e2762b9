"""Experts by drawing, messages and codewords by SciPy, other units by whitepapers, a model's life by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from assay import stack
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
YEAR = 31557600.0


def value(target: str, given: dict[str, float]) -> float:
    return stack.registry().resolve(target, given).require_value()


def test_dropped_tokens_by_drawing() -> None:
    """4,096 tokens to 2 of 64 experts, which take a tenth more than the mean."""
    given = {
        "routing.tokens": 4096.0, "architecture.experts": 64.0, "architecture.experts_per_token": 2.0,
        "routing.expert.capacity_factor": 1.1,
    }  # fmt: skip
    rng = np.random.default_rng(0)
    asked = rng.binomial(4096, 2 / 64, (4000, 64))
    capacity = 1.1 * 128
    drawn = np.maximum(asked - capacity, 0).sum() / asked.sum()
    assert value("routing.expert.capacity", given) == pytest.approx(capacity)
    assert value("routing.expert.dropped", given) == pytest.approx(drawn, rel=0.08)


def test_balance_loss_is_one_where_even() -> None:
    """Switch Transformer: N sum f P; 1 where even, more where a few are sent most."""
    even = {
        "architecture.experts": 8.0, "routing.balance.busy": 2.0, "routing.balance.busy_share": 0.25,
        "routing.balance.busy_chance": 0.25,
    }  # fmt: skip
    assert value("routing.balance.loss", even) == pytest.approx(1)
    skewed = {**even, "routing.balance.busy_share": 0.7, "routing.balance.busy_chance": 0.6}
    shares, probabilities = [0.35] * 2 + [0.05] * 6, [0.3] * 2 + [0.4 / 6] * 6
    assert value("routing.balance.loss", skewed) == pytest.approx(
        8 * float(np.dot(shares, probabilities))
    )


def test_latent_attention_of_deepseek_v3() -> None:
    """128 heads of 128 and 128 are 32,768 elements; 512 and 64 are kept: 57 times fewer."""
    question = read_question(TRAINING, None, None, ("models/deepseek-v3",))
    compression = question.resolve("routing.cache.compression", intervals=False).require_value()
    assert compression == pytest.approx(128 * (192 + 128) / 576, rel=1e-6)


def test_packets_and_queues() -> None:
    given = {
        "links.message.size": 1e6, "links.packet.payload": 4096.0, "links.load": 0.5, "links.packet.time": 8e-8,
        "links.latency": 2e-6,
    }  # fmt: skip
    assert value("links.message.packets", given) == math.ceil(1e6 / 4096)
    assert value("links.queue.random_time", given) == pytest.approx(8e-8)
    assert value("links.message.time", given) == pytest.approx(2e-6 + 245 * 1.6e-7)


def test_codewords_that_cannot_be_corrected() -> None:
    """RS(544, 514): more than 15 of 544 symbols wrong, at 1e-4 of the bits."""
    symbol = 1 - (1 - 1e-4) ** 10
    lost = value("links.errors.lost", {"links.errors.rate": 1e-4})
    assert lost == pytest.approx(binom.sf(15, 544, symbol), rel=0.25)
    assert 0 < lost < 1e-12


def test_other_units_of_an_h100() -> None:
    """66.9 TFLOP/s at 1.98 GHz are 61.8 at 1.83; FlashAttention-3: 3.9 TFLOP/s of exponentials, 256 times fewer."""
    given = {"arithmetic.special.lanes": "16"}
    question = read_question(TRAINING, given)

    def answer(target: str) -> float:
        return question.resolve(target, intervals=False).require_value()

    assert answer("arithmetic.peak.vector") / 1e12 == pytest.approx(61.8, rel=0.01)
    assert answer("arithmetic.special.rate") / 1e12 == pytest.approx(3.9, rel=0.02)
    assert answer("arithmetic.special.balance") == pytest.approx(256)
    assert answer("arithmetic.special.attention_share") == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("bits", "scale", "block", "second", "expected"),
    [(8, 8, 32, 0, 8.25), (4, 8, 32, 0, 4.25), (4, 8, 16, 0, 4.5)],
)
def test_bits_of_block_formats(
    bits: int, scale: int, block: int, second: int, expected: float
) -> None:
    """MXFP8 8.25, MXFP4 4.25, NVFP4 4.5."""
    given = {
        "formats.bits": float(bits), "formats.block.scale_bits": float(scale), "formats.block.size": float(block),
        "arithmetic.blocks.second_bits": float(second),
    }  # fmt: skip
    assert value("arithmetic.blocks.bits", given) == pytest.approx(expected)


def test_text_that_is_read_four_times_is_nearly_new() -> None:
    """Muennighoff et al.: up to 4 readings are worth nearly as much as new text; 40 are not."""
    shares = [
        value(
            "scaling.repeated.effective",
            {"scaling.tokens": n * 1e11, "scaling.repeated.unique": 1e11},
        )
        / (n * 1e11)
        for n in (1, 4, 40)
    ]
    assert shares[0] == pytest.approx(1)
    assert shares[1] > 0.9
    assert shares[2] < 0.4


def test_progress_halves_compute() -> None:
    """Ho et al.: about 8 months; a year is 2^1.5."""
    given = {"scaling.compute": 1e24, "scaling.progress.later": YEAR}
    assert value("scaling.progress.compute", given) == pytest.approx(1e24 / 2**1.5, rel=1e-6)


def test_loss_in_bits() -> None:
    given = {"scaling.loss": 2.0, "scaling.token_bytes": 4.0}
    assert value("scaling.perplexity", given) == pytest.approx(math.e**2)
    assert value("scaling.bits_per_byte", given) == pytest.approx(2 / math.log(2) / 4)


def test_a_served_token_carries_its_share_of_the_run() -> None:
    given = {
        "scaling.life.tokens": 1e13, "econ.run.total_cost": 5e6, "econ.cost.per_output_token": 1e-6,
        "scaling.life.decline": 5e6 * 2 / YEAR**2,
    }  # fmt: skip
    assert value("scaling.life.token_cost", given) == pytest.approx(1.5e-6)
    assert value("scaling.life.training_share", given) == pytest.approx(1 / 3)
    assert value("scaling.life.refresh", given) == pytest.approx(YEAR)


def test_offloaded_states_cross_the_bus() -> None:
    given = {
        "routing.offload.share": 0.5, "parallelism.owned_parameters": 1e9, "optimizer.gradient_bytes": 2.0,
        "optimizer.weight_bytes": 2.0, "routing.offload.bandwidth": 5e10,
    }  # fmt: skip
    assert value("routing.offload.time", given) == pytest.approx(0.5 * 1e9 * 4 / 5e10)


def test_a_step_waits_for_the_bus_and_for_storage() -> None:
    chosen = {"training.step_time": "routing.fed_step"}

    def step(share: str, store: str, bus: str = "50 GB/(s*GPU)") -> float:
        given = {
            "routing.offload.share": share, "routing.input.store_rate": store, "routing.offload.bandwidth": bus,
            "routing.input.token_bytes": "4 byte/token",
        }  # fmt: skip
        question = read_question(TRAINING, given, chosen)
        return question.resolve("training.step_time", intervals=False).require_value()

    alone = read_question(TRAINING).resolve("training.step_time", intervals=False).require_value()
    assert step("0", "10 GB/s") == pytest.approx(alone)
    assert step("1", "10 GB/s") > alone
    tokens = (
        read_question(TRAINING).resolve("training.tokens_per_step", intervals=False).require_value()
    )
    assert step("0", "0.1 MB/s") == pytest.approx(tokens * 4 / 1e5)
