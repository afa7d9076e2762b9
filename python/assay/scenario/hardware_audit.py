"""Audit of hardware: inputs that move no headline, and computed values outside their bounds.

A layer of physics that reaches no answer is decoration. Every datum of a GPU and its memory that the built-in
scenarios state must move a headline of one of them, at the point or within a tenth of its value. What describes the
board of the benchmarks moves both clocks alike, so the scenario's own quantity is moved in its place. Data of the
layers below reach a headline by some choice of relations, or serve an answer that the outside has a number for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from assay.model.comparing.sensitivity import sensitivities
from assay.model.inputs import Inputs
from assay.model.registry import Registry
from assay.scenario import built_in
from assay.scenario.named_scenario import Preset

HEADLINES: Final = {
    "llama3_8b_8_h100_training": (
        "training.step_time", "econ.cost.per_token", "gpu.power", "carbon.per_token",
        "manufacturing.gpu.cost", "manufacturing.footprint.gpu",
    ),
    "llama3_8b_h200_serving": ("serving.time_per_output_token", "econ.cost.per_output_token"),
}  # fmt: skip
"""What answers are asked for, by scenario."""

_SCOPES: Final = ("gpu", "hbm")
_REFERENCE: Final = "gpu.reference."
_OWN: Final = {
    "gpu.reference.top_clock": "gpu.top_clock",
    "gpu.reference.cycle_energy": "gpu.cycle_energy",
    "gpu.reference.voltage_slope": "gpu.voltage_slope",
    "gpu.reference.voltage_floor": "gpu.voltage_floor",
    "gpu.reference.leakage_reference": "gpu.power.leakage_reference",
    "gpu.reference.leakage_scale": "gpu.leakage_scale",
    "gpu.reference.thermal_resistance": "gpu.thermal_resistance",
}
"""What a scenario may state for itself, by what the board of the benchmarks has."""
EXEMPT: Final = {
    "gpu.dense_use": "kernels and benchmarks switch alike",
    "gpu.issue_activity": "kernels and benchmarks switch alike",
    "hbm.access_energy": "memory traffic of kernels and benchmarks draws alike under a limit",
    "gpu.voltage_floor": "no headline runs at the least voltage",
}
"""Inputs that cancel or that no scenario reaches, and why; formats that none computes in have rates besides."""
PHYSICAL: Final = frozenset({
    "arithmetic", "delivery", "dram", "fab", "floorplan", "formats", "geometry", "gpu", "hbm", "links", "lithography",
    "logic", "manufacturing", "metal", "multiprocessor", "nuclear", "precision", "regulation", "sram", "stacking",
    "switching", "timing", "transistor", "wires",
})  # fmt: skip
"""Layers of hardware: each datum lies in the cone of a headline, by relations in use or by alternatives."""
ANSWERS: Final = {
    "arithmetic.flops.fp64": "data sheet of an H100",
    "arithmetic.flops.vector": "data sheet of an H100",
    "arithmetic.multiplier.transistors": "units of LLMCompass",
    "arithmetic.special.rate": "CUDA's table of throughputs",
    "delivery.warm_up": "SciPy: how fast a die gets warm",
    "dram.sense.time": "regeneration in closed form",
    "fab.silicon.yield": "silicon of The 1.7 Kilogram Microchip",
    "fab.water.wafer": "water of a fab",
    "geometry.label": "names of nodes",
    "geometry.metal.exposures": "exposures by pitch",
    "links.errors.expected": "Reed-Solomon codewords, binomial",
    "lithography.dose.spread": "pulses in a slit, by averaging",
    "lithography.droplet.mass": "tin of a droplet",
    "lithography.droplet.spacing": "droplets in flight",
    "lithography.laser.intensity": "published plasmas of tin",
    "lithography.plasma.ionized": "Saha",
    "metal.bisection.wires": "wires across a die",
    "metal.path.resistance": "vias in series",
    "multiprocessor.first.sets": "sets of a cache",
    "multiprocessor.kernel.cache_ceiling": "rooflines by level",
    "multiprocessor.memory.reached": "CUDA's occupancy calculator, Little's law",
    "regulation.droop.impedance": "target impedance",
    "regulation.radiation.power": "Stefan-Boltzmann",
    "sram.array.access_time": "delay of CACTI's arrays",
    "sram.margin": "margins of a cell",
    "stacking.via.area": "holes of CACTI",
    "stacking.via.resistance": "holes of CACTI",
    "switching.carriers.excess": "SciPy: continuity",
    "switching.flicker.density": "flicker noise of a gate",
    "timing.register.race_margin": "hold time",
    "wires.repeated_delay": "repeaters of CACTI",
}
"""Answers beside the headlines that some data serve, and what of the outside they are compared with."""
_RATES: Final = "gpu.rate_"
_LEAST: Final = 1e-9
"""A smaller relative change of a headline is rounding."""


class HardwareAudit(NamedTuple):
    """Inputs of hardware that move no headline, and values of headlines' cones outside their bounds."""

    idle: tuple[str, ...]
    out_of_bounds: tuple[str, ...]
    unconnected: tuple[str, ...] = ()

    @property
    def issues(self) -> list[str]:
        """What should be mended, a line each."""
        return [
            *(f"{name} moves no headline" for name in self.idle),
            *(f"{name} reaches neither a headline nor an answer" for name in self.unconnected),
            *self.out_of_bounds,
        ]


def covers(registry: Registry) -> bool:
    """Whether a model has the headlines at all."""
    return all(target in registry.variables for targets in HEADLINES.values() for target in targets)


def audit_hardware() -> HardwareAudit:
    """Move every datum of hardware in the built-in scenarios and look whether a headline follows."""
    stated: dict[str, None] = {}
    moved: set[str] = set()
    broken: dict[str, None] = {}
    for name, targets in HEADLINES.items():
        preset = built_in.preset(name)
        inputs = _with_own_board(preset)
        stated |= dict.fromkeys(_data_of_hardware(preset.registry, inputs))
        for target in targets:
            effects = sensitivities(preset.registry, target, inputs, preset.variants)
            least = _LEAST * abs(effects.value)
            moved |= {
                item.variable.name
                for item in effects.inputs
                if item.swing > least or abs(item.elasticity or 0.0) > _LEAST
            }
            resolution = preset.registry.resolve(target, preset.exact_inputs, preset.variants)
            broken |= dict.fromkeys(
                f"{verdict.name}: {verdict.text} does not hold in {name}"
                for verdict in resolution.violated
                if verdict.name.startswith("bounds of ")
            )
    idle = [name for name in stated if name not in moved and name not in EXEMPT]
    return HardwareAudit(
        tuple(idle), tuple(broken), tuple(unconnected(built_in.preset(name).registry))
    )


def unconnected(registry: Registry) -> list[str]:
    """Data of hardware that no relation leads from to a headline or to an answer, whatever is chosen."""
    headlines = dict.fromkeys(target for targets in HEADLINES.values() for target in targets)
    served = registry.graph.reachable([*headlines, *ANSWERS]).variables
    return [
        name
        for name in registry.roots
        if registry.variables[name].scope in PHYSICAL
        and registry.variables[name].boundary in ("primitive", "needs-source")
        and name not in served
    ]


def _with_own_board(preset: Preset) -> Inputs:
    """The scenario's inputs, with what it takes from the board of the benchmarks as its own."""
    inputs = preset.exact_inputs
    own = {
        mine: inputs.values[theirs]
        for theirs, mine in _OWN.items()
        if theirs in inputs.values and mine not in inputs.values
    }
    return replace(inputs, values={**inputs.values, **own})


def _data_of_hardware(registry: Registry, inputs: Inputs) -> list[str]:
    own = set(_OWN.values())
    return [
        name
        for name, value in inputs.values.items()
        if value
        and registry.variables[name].scope in _SCOPES
        and (registry.variables[name].boundary == "primitive" or name in own)
        and not name.startswith((_REFERENCE, _RATES))
    ]
