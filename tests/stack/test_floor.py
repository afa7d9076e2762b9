"""The whole floor in one scenario: layers from quarks to hours that each move a headline."""

from __future__ import annotations

import pytest

from assay import stack
from assay.model.comparing.sensitivity import sensitivities
from assay.scenario.question import Question, read_question

TRAINING, SERVING = "llama3_8b_8_h100_training", "llama3_8b_h200_serving"
VARIANTS = {
    "manufacturing.process.density": "geometry.density_of_cells", "econ.gpu.price": "gpu.price_by_margin",
    "fab.capital.wafer_cost": "fab.capital.of_tools", "manufacturing.memory.price": "stacking.memory_price",
    "gpu.flops_per_cycle": "arithmetic.flops_per_cycle",
    "kernels.gemm.ingest_intensity": "multiprocessor.ingest_intensity",
    "carbon.grid.intensity": "hours.intensity_of_mix", "econ.machines.residual_share": "market.residual_by_year",
    "cluster.node.supply_efficiency": "regulation.supply_efficiency",
}  # fmt: skip
GIVEN = {
    "fab.tool.failure_interval": "190 h", "fab.tool.repair_time": "10 h", "fab.tool.scheduled_share": "0.1",
    "fab.tool.loading": "0.85", "fab.immersion.price": "7e7 USD", "fab.immersion.rate": "275 1/h",
    "fab.tool.lifetime": "5 year", "fab.dry.price": "10 USD", "fab.processing.price": "3e8 USD",
    "fab.processing.rate": "200 1/h",
    "hours.gas.share": "0.431", "hours.coal.share": "0.162", "hours.nuclear.share": "0.186",
    "hours.wind.share": "0.102", "hours.hydro.share": "0.057", "hours.solar.share": "0.039",
    "market.worth.yearly_loss": "0.35", "regulation.supply.load": "0.5",
    "stacking.die.yield": "0.9", "stacking.test.coverage": "0.98", "stacking.bond.yield": "0.99",
    "stacking.memory.wafer_price": "6000 USD", "stacking.memory.base_price": "20 USD",
    "stacking.memory.bond_price": "3 USD", "stacking.memory.margin": "0.5", "hbm.stack_capacity": "16 GiB",
    "multiprocessor.banks.count": "32",
}  # fmt: skip
LAYERS = {
    "lithography", "fab", "manufacturing", "geometry", "transistor", "stacking", "arithmetic", "multiprocessor",
    "hours", "market", "regulation", "dram", "formats",
}  # fmt: skip


def _moved(question: Question, headline: str) -> set[str]:
    """Layers whose inputs a headline follows by more than a thousandth of their change."""
    effects = sensitivities(question.registry, headline, question.inputs, question.variants)
    return {item.variable.scope for item in effects.inputs if abs(item.elasticity or 0.0) > 1e-3}


def test_layers_move_headlines_by_more_than_a_thousandth() -> None:
    training = read_question(
        TRAINING, GIVEN, VARIANTS, ("processes/n5", "scanners/nxe_3600d", "fabs/n5", "multiprocessors/gh100")
    )  # fmt: skip
    serving = read_question(
        SERVING,
        {"formats.exponent_bits": "8", "formats.mantissa_bits": "7", "formats.block.size": "1",
         "formats.block.scale_bits": "0", "dram.refresh.bank_time": "200 ns"},
        {"kernels.gemm.read_share": "dram.share_of_gemms", "serving.weight_bytes": "precision.weight_bytes"},
        ("memories/hbm3e",),
    )  # fmt: skip
    moved = _moved(training, "econ.cost.per_token") | _moved(training, "carbon.per_token")
    moved |= _moved(serving, "serving.time_per_output_token")
    assert LAYERS - moved == set()


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
