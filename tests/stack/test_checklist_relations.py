"""Small relations beside the great ones: pins, codes, contrast of images, racks, parts of a price, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from assay import stack
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"


def value(target: str, *includes: str, **values: str) -> float:
    given = {name.replace("__", "."): text for name, text in values.items()}
    question = read_question(TRAINING, given, None, includes)
    return question.resolve(target, intervals=False).require_value()


def plain(target: str, given: dict[str, float]) -> float:
    return stack.registry().resolve(target, given, intervals=False).require_value()


@pytest.mark.parametrize("factor", [0.25, 0.3, 0.4, 0.5, 1.0])
def test_contrast_is_the_overlap_of_two_pupils(factor: float) -> None:
    """Two circles of radius 1 whose centers are 1 / (2 k1) apart share the integral of their chords."""
    shared, _ = quad(
        lambda y: max(2 * (math.sqrt(1 - y * y) - 1 / (4 * factor)), 0), -1, 1, limit=200
    )
    contrast = plain("lithography.image.contrast", {"lithography.optics.process_factor": factor})
    assert contrast == pytest.approx(shared / math.pi, abs=2e-4)
    slope = plain("lithography.image.log_slope", {"lithography.optics.process_factor": factor})
    # Of 1 + C cos(2 pi x / p) at a quarter of the pitch, by half of the pitch.
    assert slope == pytest.approx(math.pi * contrast)


def test_a_lower_factor_costs_yield() -> None:
    """Less contrast, less margin of dose, more contacts that fail."""
    variant = ["lithography.resist.margin=resist.margin_of_image"]
    densities = []
    for factor in (0.35, 0.45):
        given = [f"lithography.optics.process_factor={factor}", "lithography.resist.tolerance=0.3"]
        question = read_question(TRAINING, given, variant, ("processes/n5", "scanners/nxe_3600d"))
        densities.append(
            question.resolve("lithography.resist.failure", intervals=False).require_value()
        )
    assert densities[0] > densities[1]


def test_codes_of_half_precision_are_those_of_numpy() -> None:
    patterns = np.arange(2**16, dtype=np.uint16).view(np.float16)
    half = {"formats.exponent_bits": 5.0, "formats.mantissa_bits": 10.0, "formats.finite_only": 0.0}
    assert plain("precision.codes.nan", half) == np.isnan(patterns).sum()
    assert plain("precision.codes.infinite", half) == np.isinf(patterns).sum()
    assert plain("precision.codes.finite", half) == np.isfinite(patterns).sum()
    # OCP 8-bit formats 2023: E4M3 has two patterns of NaN and no infinity.
    narrow = {
        "formats.exponent_bits": 4.0,
        "formats.mantissa_bits": 3.0,
        "formats.finite_only": 1.0,
    }
    assert [plain(f"precision.codes.{name}", narrow) for name in ("nan", "infinite", "finite")] == [
        2,
        0,
        254,
    ]


def test_an_offset_delays_the_sense_amplifier() -> None:
    """112.5 mV of signal less 50 mV of offset, by a gain of 7.2, to 0.45 V."""
    cell = {
        "dram.cell.capacitance": 30e-15,
        "dram.cell.voltage": 0.9,
        "dram.bitline.capacitance": 90e-15,
    }
    given = {**cell, "dram.sense.constant": 5e-10, "dram.sense.offset": 0.05}
    assert plain("dram.sense.gain", given) == pytest.approx(0.45 / 0.0625)
    assert plain("dram.sense.time", given) == pytest.approx(5e-10 * math.log(7.2))


def test_rates_of_an_h100_inside_and_between_nodes() -> None:
    """NVLink 450 GB/s, an adapter of 400 Gbit/s: 9; 989.4 TFLOP/s over 50 GB/s; 1,024 pins of an HBM stack."""
    assert value("interconnect.link.ratio") == pytest.approx(9)
    assert value("cluster.rack.balance") == pytest.approx(989.4e12 / 50e9, rel=1e-3)
    assert value("cluster.node.bandwidth") == pytest.approx(400e9)
    assert value("cluster.site.bisection") == pytest.approx(value("cluster.gpus") / 2 * 50e9)
    assert value("hbm.stack_pins") == 1024


def test_exponentials_and_bytes_of_attention() -> None:
    """FlashAttention-3 counts 3.9 T special functions a second; unfused, 8 bytes of each score move, fused none."""
    heads, layers, tokens, size = 32, 32, 8192, 128
    time = value("training.attention.special_time", arithmetic__special__lanes="16")
    assert time == pytest.approx(heads * layers * tokens / 3.9e12, rel=0.02)
    fused = 2 * (2 + 2 / 4) * size * tokens
    assert value("training.attention.saved_share") == pytest.approx(
        1 - fused / (8 * tokens**2), rel=2e-2
    )


def test_costs_by_step_and_operation_and_by_parts() -> None:
    """Eight drives of 3.84 TB over the bytes of a checkpoint; a node's price is that of its parts."""
    copies = value("cluster.checkpoint.local_copies", cluster__drive__capacity="3.84 TB")
    assert copies == pytest.approx(
        value("cluster.node.drives") * 3.84e12 / value("cluster.checkpoint.size")
    )
    steps = value("training.steps")
    assert value("econ.cost.per_operation") * value(
        "training.flops_per_step"
    ) * steps == pytest.approx(value("econ.run.total_cost"))
    assert value("econ.energy.per_step") * steps == pytest.approx(value("econ.run.energy"))
    question = read_question(
        TRAINING,
        [
            "econ.server.cpu_price=10000 USD", "econ.server.memory_price=5 USD/GB", "econ.server.drive_price=500 USD",
            "econ.server.adapter_price=1500 USD", "econ.server.chassis_price=20000 USD/node",
        ],
        ["econ.server.price=server.price_of_parts"],
    )  # fmt: skip
    price = question.resolve("econ.server.price", intervals=False).require_value()
    memory = value("cluster.node.memory_size") / 1e9
    drives = value("cluster.node.drives")
    assert price == pytest.approx(2 * 10000 + 5 * memory + 8 * 1500 + 500 * drives + 20000)


def test_lighting_and_traffic_are_paid_for() -> None:
    """A hundredth of the machines' power raises PUE by a hundredth and what transformers lose of it."""
    power = value("cluster.it_power")
    lit = value("thermal.dc.pue", thermal__dc__other_power=f"{power / 100} W") - value(
        "thermal.dc.pue"
    )
    assert 0.01 < lit < 0.0103
    question = read_question(
        TRAINING, ["econ.transit.traffic=1 GB/s", "econ.transit.price=0.05 USD/GB"],
        ["econ.transit.rate=transit.by_traffic"],
    )  # fmt: skip
    added = question.resolve("econ.site.rate", intervals=False).require_value() - value(
        "econ.site.rate"
    )
    assert added == pytest.approx(0.05)


def test_droplets_are_hit_before_the_next_comes() -> None:
    """50 kHz are 20 us; a main pulse 25 us after the first would meet the next droplet."""
    assert plain("lithography.droplet.period", {"lithography.droplet.rate": 5e4}) == pytest.approx(
        2e-5
    )
