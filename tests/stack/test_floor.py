"""The whole floor in one scenario: layers from quarks to hours that each move a headline."""

from __future__ import annotations

import math

import pytest

from assay import stack
from assay.model.comparing.sensitivity import sensitivities
from assay.scenario.question import Question, read_question

TRAINING, SERVING = "llama3_8b_8_h100_training", "llama3_8b_h200_serving"
FLOOR = ("packs/h100_floor",)
HEADLINES = ("econ.cost.per_token", "training.step_time", "gpu.power", "carbon.per_token")
LAYERS = {
    "lithography", "fab", "manufacturing", "geometry", "transistor", "switching", "metal", "wires", "arithmetic",
    "multiprocessor", "dram", "hbm", "stacking", "delivery", "regulation", "hours",
}  # fmt: skip


def _moved(question: Question, headline: str) -> set[str]:
    """Layers whose inputs a headline follows by more than a thousandth of their change."""
    effects = sensitivities(question.registry, headline, question.inputs, question.variants)
    return {item.variable.scope for item in effects.inputs if abs(item.elasticity or 0.0) > 1e-3}


@pytest.fixture(scope="module")
def floor() -> Question:
    return read_question(TRAINING, None, None, FLOOR)


def test_one_pack_makes_layers_move_headlines_by_more_than_a_thousandth(floor: Question) -> None:
    moved = {headline: _moved(floor, headline) for headline in HEADLINES}
    assert LAYERS - set().union(*moved.values()) == set()
    for headline in ("econ.cost.per_token", "carbon.per_token"):
        assert len(LAYERS & moved[headline]) >= 12, (headline, sorted(LAYERS - moved[headline]))


def test_formats_move_a_served_token() -> None:
    serving = read_question(
        SERVING,
        {"formats.exponent_bits": "8", "formats.mantissa_bits": "7", "formats.block.size": "1",
         "formats.block.scale_bits": "0"},
        {"serving.weight_bytes": "precision.weight_bytes"},
    )  # fmt: skip
    assert "formats" in _moved(serving, "serving.time_per_output_token")


PUBLISHED = [
    # What NVIDIA, TSMC's customers and others state, beside what the layers below give.
    ("manufacturing.gpu.cost", 3320.0, 0.1),
    ("econ.gpu.price", 27500.0, 0.1),
    ("manufacturing.wafer.price", 16988.0, 0.05),
    ("fab.capital.wafer_cost", 4235.0, 0.02),
    ("manufacturing.die.area", 814e-6, 0.001),
    ("manufacturing.footprint.logic.energy", 2.75 * 3.6e6 * 1e4, 0.01),
    ("carbon.gpu.embodied", 164.0, 0.1),
    ("gpu.flops_per_cycle", 4096.0, 1e-9),
    ("gpu.thermal_resistance", 0.037, 0.01),
    ("lithography.power", 250.0, 0.01),
    ("kernels.gemm.reach_share", 0.502, 0.05),
]


@pytest.mark.parametrize(("target", "published", "tolerance"), PUBLISHED)
def test_the_pack_comes_to_what_is_published(
    floor: Question, target: str, published: float, tolerance: float
) -> None:
    value = floor.resolve(target, intervals=False).require_value()
    assert value == pytest.approx(published, rel=tolerance)


def test_a_fab_by_two_ways(floor: Question) -> None:
    """TSMC: 17.18 billion USD for a million wafers a year; TechInsights: scanners take about 11 % of a fab's power."""

    def value(name: str) -> float:
        return floor.resolve(name, intervals=False).require_value()

    assert value("fab.capital.by_rate") == pytest.approx(17.18e9 / 1e6, rel=0.05)
    scanners = value("lithography.euv_layers") * value("fab.energy.by_euv_pass")
    assert 0.08 < scanners / value("fab.energy.wafer") < 0.15


def test_a_node_beside_the_pack_is_a_shrink() -> None:
    """Of two entries the later holds: the energy of a cycle is that of the node, not of the pack's gates."""
    both, alone = (
        read_question(TRAINING, None, None, includes)
        for includes in ((*FLOOR, "processes/n2"), ("processes/n2",))
    )
    energy = [q.resolve("gpu.cycle_energy", intervals=False).require_value() for q in (both, alone)]
    # A chip that draws less drops less voltage, and the energy goes with the square of what is left.
    volts = both.resolve("transistor.supply", intervals=False).require_value()
    assert 0.75 < volts < 0.78
    assert energy[0] == pytest.approx(energy[1] * (volts / 0.75) ** 2, rel=1e-5)


@pytest.mark.parametrize(
    "scope", ["nuclear", "lithography", "fab", "transistor", "wires", "dram", "sram", "stacking"]
)
def test_cost_of_a_token_reaches_down_to(scope: str) -> None:
    reached = stack.registry().graph.reachable(["econ.cost.per_token"]).variables
    assert any(name.startswith(f"{scope}.") for name in reached)


def test_constants_of_nature_reach_the_cost_of_a_token() -> None:
    reached = stack.registry().graph.reachable(["econ.cost.per_token"]).variables
    constants = [name for name in stack.registry().constants if name.startswith("physics.")]
    assert [name for name in constants if name not in reached] == []


RELATED = [
    ("transistor.oxide.equivalent_thickness",
     {"transistor.oxide.thickness": 2e-9, "transistor.oxide.permittivity": 22.0}, 2e-9 * 3.9 / 22),
    ("timing.register.race_margin", {"timing.register.propagation": 4e-11, "timing.register.hold": 5e-12,
                                     "timing.clock.skew": 1e-11}, 2e-11 - 5e-12 - 1e-11),
    ("architecture.heads.group", {"architecture.heads": 32.0, "architecture.kv_heads": 8.0}, 4.0),
    ("architecture.rotary.longest", {"architecture.head_size": 128.0}, 2 * 3.141592653589793 * 10000 ** (126 / 128)),
    ("dram.capacity.effective", {"hbm.stacks": 5.0, "hbm.stack_capacity": 16e9, "dram.capacity.check_share": 0.0625},
     5 * 16e9 * 0.9375),
    ("arithmetic.tensor_cores.gpu", {"gpu.multiprocessors": 132.0, "arithmetic.tensor_cores": 4.0}, 528.0),
]  # fmt: skip


_CELL = {"dram.cell.capacitance": 30e-15, "dram.cell.voltage": 0.9, "dram.bitline.capacitance": 85e-15,
         "dram.sense.floor": 0.08, "dram.cell.leakage": 1e-15}  # fmt: skip
_HOLE = {
    "stacking.via.radius": 2e-6, "stacking.via.liner": 0.2e-6, "stacking.via.height": 50e-6, "stacking.via.swing": 0.4,
    "hbm.dies_per_stack": 8.0, "wires.distance": 0.01, "wires.toggle": 0.5, "wires.capacitance": 2e-10,
    "wires.swing": 0.75,
}  # fmt: skip
_STACK = {"gpu.coolant_temperature": 300.0, "regulation.memory.power": 15.0, "regulation.memory.layer_resistance": 0.5,
          "regulation.memory.layers": 8.0}  # fmt: skip
_GATE = {"switching.gate.resistance": 5e3, "switching.gate.input": 0.5e-15, "switching.gate.fan_out": 3.0,
         "wires.resistance": 2e7, "metal.rent.mean_length": 5e-6, "wires.capacitance": 2e-10}  # fmt: skip
CHOSEN = [
    # A bitline of 85 fF has 117 mV of 900: a third may leak before 80 mV are left.
    ("dram.cell.loss", "dram.cell.loss_by_signal", _CELL, 1 - 0.08 / (0.45 * 30 / 115)),
    ("dram.retention.median", "dram.retention.median_of_leakage", {**_CELL, "dram.cell.loss": 0.1125},
     0.1125 * 30e-15 * 0.9 / 1e-15),
    ("dram.temperature", "regulation.memory_temperature", _STACK, 300 + 15 * 0.5 * 4.5),
    ("dram.transport_energy", "stacking.transport_with_holes", _HOLE,
     8 * (4 * 2 * math.pi * 3.9 * 8.8541878128e-12 * 50e-6 / math.log(1.1) * 0.4**2 / 2
          + 0.5 * 2e-10 * 0.75**2 * 0.01)),
    ("timing.gate_delay", "switching.delay_through_wires", _GATE,
     5e3 * (1.5e-15 + 1e-15) + 2e7 * 5e-6 * (0.5e-15 + 1.5e-15)),
]  # fmt: skip


@pytest.mark.parametrize(("target", "relation", "given", "expected"), CHOSEN)
def test_alternatives_by_hand(
    target: str, relation: str, given: dict[str, float], expected: float
) -> None:
    value = stack.registry().resolve(target, given, {target: relation}).require_value()
    assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("target", "given", "expected"), RELATED)
def test_values_by_hand(target: str, given: dict[str, float], expected: float) -> None:
    assert stack.registry().resolve(target, given).require_value() == pytest.approx(
        expected, rel=1e-9
    )


def test_multiprocessors_of_a_full_reticle() -> None:
    """GA100 fills 826 of 858 mm2 with 108 sold: 32 mm2 more are six of 5.1 mm2 with their spares."""
    question = read_question(TRAINING, None, None, ("accelerators/a100_sxm", "floorplans/ga100"))
    fitting = question.resolve("floorplan.fitting", intervals=False).require_value()
    tile = question.resolve("floorplan.tile.area", intervals=False).require_value()
    assert tile * 1e6 == pytest.approx(3.7207 + 0.5972, rel=1e-6)
    assert fitting == 108 + int((858 - 825.9) / (tile * 1e6 * 1.18519))


def test_a_kernel_under_its_ceilings() -> None:
    """2 x 4096^3 operations that move each operand of 2 bytes once from memory: bound by the tensor cores."""
    given = {
        "gpu.peak_flops": 9.9e14, "gpu.memory.bandwidth": 3.35e12, "multiprocessor.second.bandwidth": 5.5e12,
        "multiprocessor.shared.bandwidth": 3.1e13, "multiprocessor.registers.bandwidth": 3.7e14,
        "multiprocessor.kernel.flops": 2 * 4096.0**3, "multiprocessor.kernel.memory_bytes": 3 * 4096.0**2 * 2,
        "multiprocessor.kernel.cache_bytes": 2 * 4096.0**3 * 2 / 128,
        "multiprocessor.kernel.shared_bytes": 4096.0**3 / 16,
        "multiprocessor.kernel.register_bytes": 4096.0**3 / 8,
    }  # fmt: skip
    ceiling = {
        level: stack.registry()
        .resolve(f"multiprocessor.kernel.{level}_ceiling", given)
        .require_value()
        for level in ("memory", "cache", "shared", "register")
    }
    assert ceiling["memory"] == pytest.approx(4096 / 3 * 3.35e12)
    assert ceiling["cache"] == pytest.approx(64 * 5.5e12)
    attained = stack.registry().resolve("multiprocessor.kernel.attainable", given).require_value()
    assert attained == pytest.approx(min(*ceiling.values(), 9.9e14))
