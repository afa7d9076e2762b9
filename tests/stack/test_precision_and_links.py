"""Rounding against NumPy and enumeration, and the way of a packet by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay import stack
from assay.scenario.question import read_question

E4M3 = {"formats.exponent_bits": 4.0, "formats.mantissa_bits": 3.0, "formats.finite_only": 1.0}
FP16 = {"formats.exponent_bits": 5.0, "formats.mantissa_bits": 10.0, "formats.finite_only": 0.0}
E2M1 = {"formats.exponent_bits": 2.0, "formats.mantissa_bits": 1.0, "formats.finite_only": 2.0}


def value(target: str, given: dict[str, float], **more: float) -> float:
    named = {f"precision.{name.replace('__', '.')}": number for name, number in more.items()}
    return stack.registry().resolve(f"precision.{target}", {**given, **named}).require_value()


def test_finite_codes_by_enumeration() -> None:
    """All 65,536 patterns of half precision by NumPy; E4M3 loses two to NaN, E2M1 none."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    assert value("codes.finite", FP16) == np.isfinite(halves).sum()
    assert value("codes.finite", E4M3) == 254
    assert value("codes.finite", E2M1) == 16


@pytest.mark.parametrize("number", [1.0, 1.5, 3.999, 1000.0, 6.2e-5, 1e-6])
def test_quantum_of_half_precision_by_numpy(number: float) -> None:
    half = np.float16(number)
    if float(half) > number:
        half = np.nextafter(half, np.float16(0))
    assert value("quantum", FP16, number=number) == float(np.spacing(half))


def test_decades_of_half_precision() -> None:
    assert value("decades", FP16) == pytest.approx(math.log10(65504 / 2**-24))
    assert value("decades.normal", FP16) == pytest.approx(math.log10(65504 / 2**-14))


def test_errors_of_rounding_by_simulation() -> None:
    """Of a hundred thousand random numbers in [1, 2), rounded by NumPy and stochastically."""
    numbers = np.random.default_rng(0).uniform(1, 2, 100_000)
    errors = numbers.astype(np.float16).astype(np.float64) - numbers
    assert value("error.deviation", FP16, number=1.5) == pytest.approx(
        float(errors.std()), rel=0.01
    )
    drawn = stack.registry().resolve("precision.error", {**FP16, "precision.number": 1.5})
    assert drawn.upper == pytest.approx(0.45 * 2**-10, rel=0.02)
    x = 1.0003
    up = value("stochastic.up", FP16, number=x)
    assert up == pytest.approx((x - 1) / 2**-10)
    rounded = np.where(np.random.default_rng(1).uniform(size=100_000) < up, 1 + 2**-10, 1.0)
    assert rounded.mean() == pytest.approx(x, abs=1e-5)
    assert value("stochastic.deviation", FP16, number=x) == pytest.approx(
        float(rounded.std()), rel=0.02
    )


def test_loss_scale_of_half_precision() -> None:
    given = {**FP16, "precision.gradient.largest": 0.5, "precision.gradient.smallest": 1e-9}
    found = stack.registry().resolve("precision.scale.largest", given)
    assert found.value == 65504 / 0.5
    assert {v.name: v.status for v in found.constraints}["precision.scale.exists"] == "true"


def test_bytes_of_weights_follow_the_format() -> None:
    """MXFP4: 4 bits and an eighth of a byte for 32 elements: 4.25 bits."""
    chosen = {"serving.weight_bytes": "precision.weight_bytes"}
    given = {
        "formats.exponent_bits": "2", "formats.mantissa_bits": "1", "formats.finite_only": "finite",
        "formats.block.size": "32", "formats.block.scale_bits": "8",
    }  # fmt: skip
    question = read_question("llama3_8b_h200_serving", given, chosen)
    assert question.resolve("serving.weight_bytes", intervals=False).value == 4.25 / 8


LINK = {
    "links.fiber.length": 50.0, "links.hops": 3.0, "links.switch.latency": 130e-9, "links.host.latency": 1e-6,
    "interconnect.nic.line_rate": 50e9, "links.packet.payload": 4096.0, "links.packet.header": 66.0,
}  # fmt: skip


def test_way_of_a_packet_by_hand() -> None:
    """50 m of glass: 245 ns; 3 switches of 130 ns; 4 codewords of 680 bytes at 50 GB/s: 54 ns."""
    registry = stack.registry()
    flight = registry.resolve("links.fiber.flight_time", LINK).require_value()
    assert flight == pytest.approx(50 * 1.468 / 299792458)
    latency = registry.resolve(
        "interconnect.nic.latency", LINK, {"interconnect.nic.latency": "links.nic_latency"}
    )
    assert latency.require_value() == pytest.approx(
        1e-6 + flight + 3 * 130e-9 + 4 * 680 / 50e9, rel=1e-9
    )
    share = registry.resolve(
        "interconnect.nic.share", LINK, {"interconnect.nic.share": "links.nic_share"}
    )
    assert share.require_value() == pytest.approx(4096 / 4162 * 514 / 544)
    filled = registry.resolve("links.in_flight", LINK).require_value()
    assert filled == pytest.approx(50e9 * latency.require_value())


def test_wait_at_a_port_by_simulation() -> None:
    """Packets of one size that arrive at random, at a load of 0.6: 0.75 of a packet's time (M/D/1)."""
    random = np.random.default_rng(2)
    gaps = random.exponential(1 / 0.6, 400_000)
    wait, total = 0.0, 0.0
    for gap in gaps:
        wait = max(0.0, wait + 1.0 - gap)
        total += wait
    given = {**LINK, "links.load": 0.6}
    queue, packet = (
        stack.registry().resolve(f"links.{name}", given).require_value()
        for name in ("queue.time", "packet.time")
    )
    assert queue / packet == pytest.approx(total / len(gaps), rel=0.03)


def test_power_of_a_transceiver() -> None:
    """15 pJ a bit at 400 Gbit/s are 6 W."""
    given = {"links.bit_energy": 8 * 15e-12, "interconnect.nic.line_rate": 50e9}
    chosen = {"cluster.network.transceiver_power": "links.transceiver_power"}
    found = stack.registry().resolve("cluster.network.transceiver_power", given, chosen)
    assert found.value == pytest.approx(6)
