"""The plasma and its light: how far tin is ionized, where a laser can heat it, and what a mirror reflects.

A laser heats a plasma up to the density at which the plasma's own oscillation is as fast as the light; longer waves
heat thinner plasma. How many electrons tin has lost follows from temperature and density (Saha); the speed of the hot
ions sets how fast the target grows between the pulses. A mirror for such light is a stack of some forty pairs of
layers, each half a wavelength apart.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Symbol, Variable, by_definition, cited, cos, exp, number, sqrt, tan
from assay.stack import physics
from assay.stack.lithography import optics
from assay.stack.lithography.scanner import dose
from assay.stack.lithography.source import (
    collection,
    conversion,
    diameter,
    droplet_period,
    droplet_rate,
    ion_speed,
    plasma_density,
    plasma_temperature,
    pulse_energy,
    scope,
    wavelength,
)

_CHEN = "Chen 2016, Introduction to Plasma Physics and Controlled Fusion, 3rd edition"
_SAHA = cited(_CHEN, "sec. 1.1, Saha equation")
_DEBYE = cited(_CHEN, "sec. 1.4, Debye shielding")
_CUTOFF = cited(_CHEN, "ch. 4, electromagnetic waves: critical density")
_SPOT = cited("Siegman 1986, Lasers", "ch. 17, Gaussian beams: focused spot size")
_EXPANSION = cited(
    "Fomenkov et al. 2017, Light sources for high-volume manufacturing EUV lithography: technology, performance, and "
    "power scaling, Advanced Optical Technologies 6(3-4)",
    "pre-pulse and main pulse: target expansion",
)
_BRAGG = cited("Bakshi 2018, EUV Lithography, 2nd edition", "multilayer mirrors: Bragg condition and number of pairs")
_DOSE = cited("Bakshi 2018, EUV Lithography, 2nd edition", "dose control: pulses in the slit")
_MEDIUM = cited("Born and Wolf 1999, Principles of Optics, 7th edition", "sec. 2.3.3, Lorentz-Lorenz formula")
_OSCILLATOR = cited(
    "Born and Wolf 1999, Principles of Optics, 7th edition", "sec. 2.3.4, elementary theory of dispersion"
)


def _datum(heading: str) -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=_SPOT, boundary="primitive")


# Ionization.
ionization_energy = scope.declare(
    "plasma.ionization_energy, E_i [J as eV]: energy that takes the next electron from an ion",
    bounds=POSITIVE,
    reference=_SAHA,
    boundary="primitive",
)
degeneracy = scope.declare(
    "plasma.degeneracy, g_r: statistical weight of the next ion over that of this one; unless given, 1",
    equals=1,
    bounds=POSITIVE,
    reference=_SAHA,
)
quantum_density = scope.declare(
    "plasma.quantum_density, n_Q [1/m^3]: density at which electrons of this temperature overlap",
    equals=(2 * math.pi * physics.electron_mass * physics.boltzmann * plasma_temperature / physics.planck**2) ** 1.5,
    reference=_SAHA,
)
saha = scope.declare(
    "plasma.saha, S_i [1/m^3]: electrons by volume at which half of the ions have lost the next electron",
    equals=2 * degeneracy * quantum_density * exp(-ionization_energy / (physics.boltzmann * plasma_temperature)),
    reference=_SAHA,
    target=True,
)
electron_density = scope.declare(
    "plasma.electrons, n_e [1/m^3]: electrons by volume; unless given, as many as particles",
    equals=plasma_density,
    bounds=POSITIVE,
    reference=_SAHA,
)
ionized = scope.declare(
    "plasma.ionized, x_i [1 as %]: share of the ions that have lost the next electron",
    equals=saha / (saha + electron_density),
    bounds=(0, 1),
    reference=_SAHA,
    target=True,
)
debye = scope.declare(
    "plasma.debye_length, l_D [m as nm]: distance at which the plasma screens a charge",
    equals=sqrt(
        physics.vacuum_permittivity
        * physics.boltzmann
        * plasma_temperature
        / (electron_density * physics.elementary_charge**2)
    ),
    reference=_DEBYE,
    target=True,
)
# The laser.
laser_wavelength = _datum("laser.wavelength, l_L [m as um]: wavelength of the laser")
critical_density = scope.declare(
    "laser.critical_density, n_c [1/m^3]: electrons by volume beyond which its light does not enter",
    equals=physics.vacuum_permittivity
    * physics.electron_mass
    * (2 * math.pi * physics.light_speed / laser_wavelength) ** 2
    / physics.elementary_charge**2,
    reference=_CUTOFF,
    target=True,
)
scope.inequality(
    "laser.enters", electron_density <= critical_density, "the plasma lets the laser in", reference=_CUTOFF
)
cone = scope.declare(
    "laser.angle, theta_L: half angle of the focused beam, in radians", bounds=("positive", 1.5), reference=_SPOT,
    boundary="primitive",
)  # fmt: skip
focal_ratio = scope.declare(
    "laser.focal_ratio, F_n: focal length over beam diameter", equals=1 / (2 * tan(cone)), reference=_SPOT
)
quality = scope.declare(
    "laser.quality, M_2: width of the beam over that of a perfect one; unless given, 1", equals=1, bounds=(1, None),
    reference=_SPOT,
)  # fmt: skip
spot = scope.declare(
    "laser.spot, w_0 [m as um]: radius of the focused beam",
    equals=2 / math.pi * focal_ratio * quality * laser_wavelength,
    bounds=POSITIVE,
    reference=_SPOT,
    target=True,
)
duration = _datum("laser.duration, t_L [s as ns]: duration of the main pulse")
intensity = scope.declare(
    "laser.intensity, I_L [W/m^2 as W/cm^2]: power by area of the main pulse",
    equals=pulse_energy / (duration * math.pi * spot**2),
    reference=_SPOT,
    target=True,
)
delay = scope.declare(
    "laser.delay, t_d [s as us]: time from the pre-pulse to the main pulse", reference=_EXPANSION, boundary="primitive"
)
scope.inequality(
    "laser.before_next",
    delay <= droplet_period,
    "a droplet is hit twice before the next one comes",
    reference=_EXPANSION,
)
target_radius = scope.declare(
    "target.radius, R_t [m as um]: radius of the target when the main pulse arrives", reference=_EXPANSION,
    target=True,
)  # fmt: skip
speed_share = scope.declare(
    "target.speed_share, k_t [1 as %]: speed at which the target grows after the pre-pulse, over the thermal speed of "
    "ions",
    reference=_EXPANSION,
    boundary="primitive",
)
expansion = scope.declare(
    "target.speed, v_t [m/s]: speed at which the target grows after the pre-pulse",
    equals=speed_share * ion_speed,
    reference=_EXPANSION,
)
scope.differential(
    target_radius,
    expansion,
    time=Symbol("t"),
    time_like=delay,
    initial=diameter / 2,
    start=number("0 s"),
    end=delay,
    name="target.expansion",
    meaning="the droplet flattens at a steady speed",
    reference=_EXPANSION,
)
heated = scope.declare(
    "target.heated, s_t [1 as %]: share of the main pulse that meets the target",
    equals=1 - exp(-2 * target_radius**2 / spot**2),
    bounds=(0, 1),
    reference=_SPOT,
    target=True,
)
best_conversion = scope.declare(
    "target.best_conversion, CE_0 [1 as %]: light of the band over laser energy that meets the target",
    bounds=(0, 1),
    reference=_EXPANSION,
    boundary="primitive",
)
scope.equation(
    conversion,
    best_conversion * heated,
    name="conversion_of_target",
    meaning="of the share of the pulse that meets the target",
    reference=_EXPANSION,
)
# The mirrors.
incidence = scope.declare(
    "optics.incidence, theta_m: angle of the light at a mirror, from its normal, in radians; unless given, 0",
    equals=0,
    bounds=(0, 1.5),
    reference=_BRAGG,
)
period = scope.declare(
    "optics.period, d_m [m as nm]: thickness of a pair of a mirror's layers",
    equals=wavelength / (2 * cos(incidence)),
    reference=_BRAGG,
    target=True,
)
contrast = scope.declare(
    "optics.contrast, r_p: amplitude that a pair of layers reflects", bounds=("positive", 1), reference=_BRAGG,
    boundary="primitive",
)  # fmt: skip
pairs = scope.declare(
    "optics.pairs, n_pr: pairs of layers that light reaches", bounds=POSITIVE, reference=_BRAGG, boundary="primitive"
)
bandwidth = scope.declare(
    "optics.bandwidth, b_m [1 as %]: width of the band that a mirror reflects, over the wavelength",
    equals=1 / pairs,
    reference=_BRAGG,
    target=True,
)


lost = scope.declare(
    "optics.lost, a_m [1 as %]: share that absorption and roughness take from a mirror; unless given, none", equals=0,
    bounds=(0, 1), reference=_BRAGG,
)  # fmt: skip
_grown = exp(2 * pairs * contrast)
scope.approximation(
    optics.reflectivity,
    ((_grown - 1) / (_grown + 1)) ** 2 * (1 - lost),
    name="optics.reflectivity_of_pairs",
    valid=pairs >= 1,
    meaning="coupled waves in a stack of pairs",
    reference=_BRAGG,
)
# Pulses make a dose.
pulse_spread = scope.declare(
    "dose.pulse_spread, s_p [1 as %]: standard deviation of a pulse's light over its mean", reference=_DOSE,
    boundary="primitive",
)  # fmt: skip
slit_time = _datum("dose.slit_time, t_s [s as ms]: time for which a point of the wafer lies in the slit")
slit_pulses = scope.declare(
    "dose.pulses, n_s: pulses that a point of the wafer gets",
    equals=droplet_rate * slit_time,
    bounds=POSITIVE,
    reference=_DOSE,
    target=True,
)
dose_spread = scope.declare(
    "dose.spread, s_D [1 as %]: standard deviation of the dose over its mean",
    equals=pulse_spread / sqrt(slit_pulses),
    reference=_DOSE,
    target=True,
)
drawn_dose = scope.declare(
    "dose.drawn, D_x [J/m^2 as mJ/cm^2]: dose of one point of the wafer", reference=_DOSE, target=True
)
scope.stochastic(
    drawn_dose, "normal", dose, dose * dose_spread, name="dose.distribution", meaning="drawn anew for each point",
    reference=_DOSE,
)  # fmt: skip
solid_angle = scope.declare(
    "collector.angle, O_c: solid angle of the collector, in steradians", bounds=(0, 6.2832), reference=_EXPANSION,
    boundary="primitive",
)  # fmt: skip
passed = scope.declare(
    "collector.passed, s_g [1 as %]: share of the collected light that gas and filters pass", bounds=(0, 1),
    reference=_EXPANSION, boundary="primitive",
)  # fmt: skip
scope.equation(
    collection,
    solid_angle / (2 * math.pi) * optics.reflectivity * passed,
    name="collection_of_mirror",
    meaning="share of the half space, reflected and passed",
    reference=_EXPANSION,
)
# The medium.
resonance = scope.declare(
    "medium.resonance, w_m [1/s]: angular frequency at which the electrons of the medium resonate", bounds=POSITIVE,
    reference=_OSCILLATOR, boundary="primitive",
)  # fmt: skip
light_frequency = scope.declare(
    "medium.light, w_l [1/s]: angular frequency of the light",
    equals=2 * math.pi * physics.light_speed / wavelength,
    reference=by_definition("speed over wavelength"),
)
polarizability = scope.declare(
    "medium.polarizability, a_v [m^3]: polarizability of a molecule of the medium, as a volume",
    equals=physics.elementary_charge**2
    / (4 * math.pi * physics.vacuum_permittivity * physics.electron_mass * (resonance**2 - light_frequency**2)),
    bounds=(None, None),
    reference=_OSCILLATOR,
)
molecules = scope.declare(
    "medium.molecules, n_m [1/m^3]: molecules of the medium by volume", reference=_MEDIUM, boundary="primitive"
)
_mossotti = 4 * math.pi / 3 * molecules * polarizability
scope.approximation(
    optics.index,
    sqrt((1 + 2 * _mossotti) / (1 - _mossotti)),
    name="medium.index",
    valid=_mossotti < 1,
    meaning="Lorentz and Lorenz: the field of neighbors adds to that of light",
    reference=_MEDIUM,
)
