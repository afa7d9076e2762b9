"""Nuclei: from quarks to the mass of an atom, and the neutrons that flip bits.

Protons and neutrons are made of up and down quarks; a nucleus of them is lighter than its parts by what binds it:
volume, less surface, less the repulsion of protons, less what an excess of one kind costs, and a term for
pairs. The mass of tin that a droplet holds follows from it to a few parts in a hundred thousand. Neutrons that cosmic
rays knock out of air nuclei reach the ground and leave charge in memory cells: a cause of failures that grows with
bits.
"""

from __future__ import annotations

from assay.model import ANY_SIGN, POSITIVE, Expression, Scope, cited, equal, exp, floor, number, where
from assay.stack import physics
from assay.stack.cluster import failures
from assay.stack.lithography.source import molar_mass

scope = Scope("nuclear", "Nuclei, atomic masses and soft errors")

_QUARKS = cited("Particle Data Group 2022, Review of Particle Physics", "quark model: proton uud, neutron udd")
_DROP = cited("Krane 1987, Introductory Nuclear Physics", "sec. 3.3, semiempirical mass formula")
_MASS = cited("Wang et al. 2021, The AME 2020 atomic mass evaluation (II)", "mass excess and binding energy")
_SOFT = cited(
    "JEDEC JESD89A 2006, Measurement and Reporting of Alpha Particle and Terrestrial Cosmic Ray-Induced Soft Errors",
    "reference neutron flux above 10 MeV at New York City, and its altitude dependence",
)

up = scope.declare("quarks.up, n_u: up quarks of a nucleus", reference=_QUARKS, boundary="scenario", nature="count")
down = scope.declare(
    "quarks.down, n_d: down quarks of a nucleus", reference=_QUARKS, boundary="scenario", nature="count"
)
scope.inequality(
    "quarks.whole",
    equal((up + down) / 3, floor((up + down) / 3)) & (2 * up >= down) & (2 * down >= up),
    "quarks come in threes, as protons and neutrons",
    reference=_QUARKS,
)
protons = scope.declare(
    "protons, Z: protons of a nucleus", equals=(2 * up - down) / 3, bounds=POSITIVE, reference=_QUARKS, target=True
)
neutrons = scope.declare(
    "neutrons, N: neutrons of a nucleus", equals=(2 * down - up) / 3, reference=_QUARKS, target=True
)
nucleons = scope.declare(
    "nucleons, A: protons and neutrons of a nucleus", equals=protons + neutrons, bounds=POSITIVE, reference=_QUARKS
)


def _coefficient(name: str, symbol: str, energy: str, what: str) -> Expression:
    return scope.declare(
        f"drop.{name}, {symbol} [J as MeV]: coefficient of the {what} of a nucleus; unless given, {energy} MeV",
        equals=number(f"{float(energy) * 1.602176634e-13!r} J"),
        reference=_DROP,
    )


volume = _coefficient("volume", "a_v", "15.5", "volume")
surface = _coefficient("surface", "a_s", "16.8", "surface")
coulomb = _coefficient("coulomb", "a_c", "0.72", "repulsion of protons")
asymmetry = _coefficient("asymmetry", "a_sym", "23", "excess of neutrons")
pairing = _coefficient("pairing", "a_p", "34", "pairs")
_even_protons = equal(protons / 2, floor(protons / 2))
_even_neutrons = equal(neutrons / 2, floor(neutrons / 2))
_pairs = where(_even_protons & _even_neutrons, 1, where(~_even_protons & ~_even_neutrons, -1, 0))
binding = scope.declare(
    "binding, B [J as MeV]: binding energy of a nucleus, as a liquid drop",
    equals=volume * nucleons
    - surface * nucleons ** (2 / 3)
    - coulomb * protons * (protons - 1) / nucleons ** (1 / 3)
    - asymmetry * (nucleons - 2 * protons) ** 2 / nucleons
    + pairing * _pairs * nucleons ** (-3 / 4),
    bounds=ANY_SIGN,
    reference=_DROP,
)
binding_by_nucleon = scope.declare(
    "binding_by_nucleon, B_A [J as keV]: binding energy by nucleon",
    equals=binding / nucleons,
    bounds=ANY_SIGN,
    reference=_DROP,
    target=True,
)
atom_mass = scope.declare(
    "atom_mass, m_a [kg]: mass of a neutral atom: hydrogen and neutrons, less what binds them",
    equals=protons * physics.hydrogen_mass + neutrons * physics.neutron_mass - binding / physics.light_speed**2,
    bounds=POSITIVE,
    reference=_MASS,
    target=True,
)
scope.equation(
    molar_mass, atom_mass * physics.avogadro, name="molar_mass", meaning="that of one isotope", reference=_MASS
)
# Neutrons of cosmic rays, and the bits that they flip.
sea_flux = scope.declare(
    "neutrons.sea_flux, Phi_0 [1/(m^2*s) as 1/(cm^2*h)]: neutrons above 10 MeV at New York; unless given, 13 by cm2 "
    "and hour",
    equals=number("36.1111111111 1/(m^2*s)"),
    reference=_SOFT,
)
pressure_depth = scope.declare(
    "neutrons.depth, x_a [kg/m^2 as g/cm^2]: mass of air above the site; 1,033 g/cm2 at sea level",
    reference=_SOFT,
    boundary="scenario",
)
attenuation = scope.declare(
    "neutrons.attenuation, L_n [kg/m^2 as g/cm^2]: mass of air that divides the flux by e; unless given, 131.3 g/cm2",
    equals=number("1313 kg/m^2"),
    bounds=POSITIVE,
    reference=_SOFT,
)
flux = scope.declare(
    "neutrons.flux, Phi [1/(m^2*s) as 1/(cm^2*h)]: neutrons above 10 MeV at the site",
    equals=sea_flux * exp((number("10332 kg/m^2") - pressure_depth) / attenuation),
    reference=_SOFT,
    target=True,
)
cross_section = scope.declare(
    "upsets.cross_section, s_bit [m^2]: area by bit in which a neutron upsets it", reference=_SOFT,
    boundary="primitive",
)  # fmt: skip
bits = scope.declare(
    "upsets.bits, n_bit [1/GPU]: bits of a GPU that are not corrected", reference=_SOFT, boundary="primitive"
)
upset_rate = scope.declare(
    "upsets.rate, lambda_n [1/(s*GPU) as 1/(year*GPU)]: upsets of a GPU by time",
    equals=flux * cross_section * bits,
    reference=_SOFT,
    target=True,
)
harm = scope.declare(
    "upsets.harm, s_h [1 as %]: share of upsets that interrupt a run", bounds=(0, 1), reference=_SOFT,
    boundary="primitive",
)  # fmt: skip
other_rate = scope.declare(
    "upsets.other_rate, lambda_o [1/(s*GPU) as 1/(year*GPU)]: interruptions of a GPU by other causes",
    reference=_SOFT,
    boundary="primitive",
)
scope.equation(
    failures.gpu_failure_rate,
    other_rate + harm * upset_rate,
    name="failure_rate",
    meaning="neutrons, and all other causes",
    reference=_SOFT,
)
