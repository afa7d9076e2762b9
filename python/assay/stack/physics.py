"""Constants of nature."""

from __future__ import annotations

from assay.model import Scope, cited
from assay.stack import works

scope = Scope("physics", "Constants of nature")


boltzmann = scope.constant(
    "boltzmann", "k_B", "1.380649e-23 J/K", "Boltzmann constant", reference=cited(works.SI_BROCHURE, "sec. 2.2")
)
elementary_charge = scope.constant(
    "elementary_charge", "e", "1.602176634e-19 C", "elementary charge", reference=cited(works.SI_BROCHURE, "sec. 2.2")
)
light_speed = scope.constant(
    "light_speed", "c", "299792458 m/s", "speed of light in vacuum", reference=cited(works.SI_BROCHURE, "sec. 2.2")
)
planck = scope.constant(
    "planck", "h", "6.62607015e-34 J*s", "Planck constant", reference=cited(works.SI_BROCHURE, "sec. 2.2")
)
avogadro = scope.constant(
    "avogadro", "N_A", "6.02214076e23 1/mol", "entities in a mole", reference=cited(works.SI_BROCHURE, "sec. 2.2")
)
vacuum_permittivity = scope.constant(
    "vacuum_permittivity",
    "eps_0",
    "8.8541878128e-12 F/m",
    "electric constant",
    reference=cited(
        "Tiesinga et al. 2021, CODATA recommended values of the fundamental physical constants: 2018", "Table 31"
    ),
)
electron_mass = scope.constant(
    "electron_mass",
    "m_e",
    "9.1093837015e-31 kg",
    "mass of an electron",
    reference=cited(
        "Tiesinga et al. 2021, CODATA recommended values of the fundamental physical constants: 2018", "Table 31"
    ),
)
_AME = cited("Wang et al. 2021, The AME 2020 atomic mass evaluation (II)", "Table I, atomic masses")
hydrogen_mass = scope.constant(
    "hydrogen_mass", "m_H", "1.67353283776e-27 kg", "mass of a hydrogen atom: 1.007825031898 u", reference=_AME
)
neutron_mass = scope.constant(
    "neutron_mass", "m_n", "1.67492749796e-27 kg", "mass of a neutron: 1.00866491590 u", reference=_AME
)
