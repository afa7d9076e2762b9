"""Silicon: from sand to a polished wafer.

Coke takes the oxygen from quartz in an arc furnace and leaves as carbon dioxide; the metal is purified through a gas,
pulled as a crystal and sawn, at which half of it becomes dust. A wafer is a tenth of a kilogram of silicon, and a GPU
takes the silicon of some square centimeters of logic and many more of memory.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, Variable, by_definition, cited, number
from assay.stack import nuclear, physics
from assay.stack.econ import capital, rates as econ_rates
from assay.stack.manufacturing import footprint, packages, wafers
from assay.stack.training import job as training_job, run as training_run

scope = Scope("fab", "Silicon, tools, flow and cost of a fab")

_CRC = cited("CRC Handbook of Chemistry and Physics", "standard atomic weights; density of silicon, 2.329 g/cm3")
_FURNACE = cited(
    "Schei, Tuset and Tveit 1998, Production of High Silicon Alloys", "carbothermic reduction: SiO2 + 2 C = Si + 2 CO"
)
_CHAIN = cited(
    "Williams, Ayres and Heller 2002, The 1.7 Kilogram Microchip, Environmental Science and Technology 36(24)",
    "energy and yields from quartz to wafer",
)
_WAFER = cited("SEMI M1, Specification for Polished Single Crystal Silicon Wafers", "300 mm wafers: 775 um thick")


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_CHAIN, boundary="primitive")


silicon_mass = scope.declare(
    "silicon.molar_mass, M_Si [kg/mol as g/mol]: molar mass of silicon; unless given, 28.085 g/mol",
    equals=number("0.028085 kg/mol"),
    bounds=POSITIVE,
    reference=_CRC,
)
scope.approximation(
    silicon_mass,
    nuclear.atom_mass * physics.avogadro,
    name="silicon.of_isotope",
    valid=nuclear.protons >= 1,
    meaning="that of one isotope, of the quarks given",
    reference=_CRC,
)
oxygen_mass = scope.declare(
    "oxygen.molar_mass, M_O [kg/mol as g/mol]: molar mass of oxygen atoms; unless given, 15.999 g/mol",
    equals=number("0.015999 kg/mol"),
    reference=_CRC,
)
carbon_mass = scope.declare(
    "carbon.molar_mass, M_C [kg/mol as g/mol]: molar mass of carbon; unless given, 12.011 g/mol",
    equals=number("0.012011 kg/mol"),
    reference=_CRC,
)
density = scope.declare(
    "silicon.density, rho_Si [kg/m^3]: density of silicon; unless given, 2,329 kg/m3",
    equals=number("2329 kg/m^3"),
    reference=_CRC,
)
thickness = scope.declare(
    "wafer.thickness, t_w [m as um]: thickness of a wafer; unless given, 775 um",
    equals=number("775e-6 m"),
    bounds=POSITIVE,
    reference=_WAFER,
)
wafer_mass = scope.declare(
    "wafer.mass, m_w [kg as g]: mass of a wafer",
    equals=density * math.pi / 4 * wafers.diameter**2 * thickness,
    reference=by_definition("density by volume"),
    target=True,
)
quartz_ratio = scope.declare(
    "quartz.ratio, k_q: quartz by mass of the silicon in it",
    equals=(silicon_mass + 2 * oxygen_mass) / silicon_mass,
    reference=_FURNACE,
    target=True,
)
furnace_yield = _datum("furnace.yield, y_f [1 as %]: silicon of the furnace over that in its quartz")
purification = _datum("purification.yield, y_p [1 as %]: silicon that is pure enough over that of the furnace")
crystal_yield = _datum("crystal.yield, y_x [1 as %]: silicon of good crystal over what is molten")
kerf = _datum("slicing.yield, y_s [1 as %]: silicon of polished wafers over that of crystals; the rest is kerf")
chain_yield = scope.declare(
    "silicon.yield, y_Si [1 as %]: silicon of polished wafers over that of the quartz",
    equals=furnace_yield * purification * crystal_yield * kerf,
    bounds=("positive", 1),
    reference=_CHAIN,
    target=True,
)
wafer_sand = scope.declare(
    "wafer.sand, m_q [kg]: quartz that a wafer takes",
    equals=wafer_mass * quartz_ratio / chain_yield,
    reference=_FURNACE,
    target=True,
)
reduction_carbon = scope.declare(
    "furnace.emissions, k_CO2: carbon dioxide by mass of furnace silicon, of its two carbon atoms",
    equals=2 * (carbon_mass + 2 * oxygen_mass) / silicon_mass,
    reference=_FURNACE,
    target=True,
)
furnace_energy = _datum("furnace.energy, e_f [J/kg as kWh/kg]: electricity of the furnace by mass of its silicon")
purification_energy = _datum(
    "purification.energy, e_p [J/kg as kWh/kg]: electricity of purifying, by mass of pure silicon"
)
crystal_energy = _datum("crystal.energy, e_x [J/kg as kWh/kg]: electricity of pulling and slicing, by mass of wafers")
wafer_energy = scope.declare(
    "wafer.silicon_energy, E_Si [J as kWh]: electricity of a bare wafer",
    equals=wafer_mass
    * (crystal_energy + (purification_energy + furnace_energy / purification) / (crystal_yield * kerf)),
    reference=_CHAIN,
    target=True,
)
silicon_emissions = scope.declare(
    "wafer.silicon_emissions, m_Si [kg]: emissions of a bare wafer: of the coke and of electricity",
    equals=wafer_mass * reduction_carbon / (purification * crystal_yield * kerf) + wafer_energy * footprint.intensity,
    reference=_CHAIN,
    target=True,
)
# A GPU and a token.
gpu_silicon = scope.declare(
    "gpu.silicon, A_Si [m^2/GPU as cm^2/GPU]: wafers of logic and memory that a GPU takes, by area",
    equals=(
        packages.dies * math.pi / 4 * wafers.diameter**2 / wafers.good_dies
        + footprint.memory_silicon / footprint.memory_yield
    )
    / packages.package_yield,
    reference=by_definition("its share of wafers, with what is lost"),
    target=True,
)
gpu_sand = scope.declare(
    "gpu.sand, m_sand [kg/GPU]: quartz that a GPU's wafers take",
    equals=gpu_silicon * wafer_sand / (math.pi / 4 * wafers.diameter**2),
    reference=_CHAIN,
    target=True,
)
token_sand = scope.declare(
    "token.sand, m_tok [kg/token]: quartz of a GPU over the training tokens of its life",
    equals=gpu_sand
    * training_job.gpus
    / (training_run.tokens_per_second * capital.machine_lifetime * econ_rates.utilisation),
    reference=_CHAIN,
    target=True,
)
token_atoms = scope.declare(
    "token.atoms, n_tok [1/token]: silicon atoms of that quartz",
    equals=token_sand / quartz_ratio / silicon_mass * physics.avogadro,
    reference=by_definition("mass over molar mass"),
    target=True,
)
