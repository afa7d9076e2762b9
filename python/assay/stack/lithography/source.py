"""The source: tin droplets that a laser turns to plasma, and the light that a mirror collects.

Fifty thousand times a second a droplet of molten tin falls through the focus of a carbon dioxide laser. A
first pulse flattens it, a second one heats it until its ions glow at 13.5 nm; the wavelength is that of an unresolved
array of transitions of several ions, which no formula of one electron gives, and so it is a datum. A mirror collects
a share of the light and sends it to the scanner.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, Scope, by_definition, cited, number, sqrt
from assay.stack import physics

scope = Scope("lithography", "Extreme-ultraviolet lithography")

_SOURCE = cited(
    "Fomenkov et al. 2017, Light sources for high-volume manufacturing EUV lithography: technology, performance, and "
    "power scaling, Advanced Optical Technologies 6(3-4)",
    "laser-produced plasma source: droplets, pulses and conversion efficiency",
)
_PLASMA = cited("Chen 2016, Introduction to Plasma Physics and Controlled Fusion, 3rd edition", "ch. 1 and 7")
_TIN = cited("CRC Handbook of Chemistry and Physics", "density of molten elements; standard atomic weights")
_PHOTON = cited("BIPM, The International System of Units (SI Brochure), 9th edition 2019", "sec. 2.2, h and c")

wavelength = scope.declare(
    "wavelength, lambda [m as nm]: wavelength of the light", bounds=POSITIVE, reference=_SOURCE, boundary="primitive"
)
photon_energy = scope.declare(
    "photon_energy, E_ph [J as eV]: energy of a photon",
    equals=physics.planck * physics.light_speed / wavelength,
    bounds=POSITIVE,
    reference=_PHOTON,
    target=True,
)
diameter = scope.declare(
    "droplet.diameter, d_dr [m as um]: diameter of a droplet", reference=_SOURCE, boundary="primitive"
)
density = scope.declare(
    "tin.density, rho_Sn [kg/m^3]: density of molten tin", bounds=POSITIVE, reference=_TIN, boundary="primitive"
)
molar_mass = scope.declare(
    "tin.molar_mass, M_Sn [kg/mol as g/mol]: molar mass of tin", bounds=POSITIVE, reference=_TIN, boundary="primitive"
)
droplet_mass = scope.declare(
    "droplet.mass, m_dr [kg as ng]: mass of a droplet",
    equals=math.pi / 6 * density * diameter**3,
    reference=by_definition("volume of a sphere by density"),
    target=True,
)
number_density = scope.declare(
    "tin.number_density, n_Sn [1/m^3]: atoms of molten tin by volume",
    equals=density * physics.avogadro / molar_mass,
    reference=_TIN,
)
droplet_atoms = scope.declare(
    "droplet.atoms, N_dr: atoms of a droplet",
    equals=number_density * math.pi / 6 * diameter**3,
    reference=by_definition("atoms by volume"),
    target=True,
)
droplet_rate = scope.declare(
    "droplet.rate, f_dr [Hz as kHz]: droplets by time", bounds=POSITIVE, reference=_SOURCE, boundary="primitive"
)
droplet_period = scope.declare(
    "droplet.period, t_dr [s as us]: time from one droplet to the next",
    equals=1 / droplet_rate,
    reference=by_definition("inverse of the rate"),
    target=True,
)
droplet_speed = scope.declare("droplet.speed, v_dr [m/s]: speed of droplets", reference=_SOURCE, boundary="primitive")
droplet_spacing = scope.declare(
    "droplet.spacing, x_dr [m as mm]: distance between droplets, which the plasma of one must not cross",
    equals=droplet_speed / droplet_rate,
    reference=_SOURCE,
    target=True,
)
tin_rate = scope.declare(
    "tin.rate, q_Sn [kg/s as g/h]: tin that the source shoots, by time",
    equals=droplet_rate * droplet_mass,
    reference=_SOURCE,
    target=True,
)
plasma_temperature = scope.declare(
    "plasma.temperature, T_p [K]: temperature of the plasma", bounds=POSITIVE, reference=_PLASMA, boundary="primitive"
)
plasma_pressure = scope.declare(
    "plasma.pressure, p_p [Pa as bar]: pressure of the plasma", reference=_PLASMA, boundary="primitive"
)
plasma_density = scope.declare(
    "plasma.density, n_p [1/m^3]: particles of the plasma by volume",
    equals=plasma_pressure / (physics.boltzmann * plasma_temperature),
    reference=_PLASMA,
    target=True,
)
ion_speed = scope.declare(
    "plasma.ion_speed, v_p [m/s as km/s]: thermal speed of tin ions, with which debris leaves the plasma",
    equals=sqrt(physics.boltzmann * plasma_temperature * physics.avogadro / molar_mass),
    reference=_PLASMA,
    target=True,
)
pulse_energy = scope.declare(
    "laser.pulse_energy, E_L [J]: energy of the main laser pulse", reference=_SOURCE, boundary="primitive"
)
laser_power = scope.declare(
    "laser.power, P_L [W as kW]: mean power of the main pulses",
    equals=pulse_energy * droplet_rate,
    reference=_SOURCE,
    target=True,
)
conversion = scope.declare(
    "conversion, CE [1 as %]: light of the band, into the half space of the collector, over laser energy",
    bounds=(0, 1),
    reference=_SOURCE,
    boundary="primitive",
)
collection = scope.declare(
    "collection, eta_c [1 as %]: share of that light which collector and gas pass to the intermediate focus",
    bounds=(0, 1),
    reference=_SOURCE,
    boundary="primitive",
)
power = scope.declare(
    "power, P_IF [W]: power of the source at the intermediate focus", reference=_SOURCE, boundary="primitive"
)
scope.equation(
    power,
    laser_power * conversion * collection,
    name="power_of_plasma",
    meaning="laser power by conversion and collection",
    reference=_SOURCE,
)
# Electricity.
_ELECTRICITY = cited(
    "Hynix 2009, International Symposium on Extreme Ultraviolet Lithography",
    "utilities of a source of 200 W at the intermediate focus: 532 kW",
)
wall_plug = scope.declare(
    "source.efficiency, eta_E [1 as %]: light at the intermediate focus over the electricity of the source",
    bounds=("positive", 1),
    reference=_ELECTRICITY,
    boundary="primitive",
)
laser_efficiency = scope.declare(
    "laser.efficiency, eta_L [1 as %]: light of the main pulses over the electricity of the source",
    bounds=("positive", 1),
    reference=_ELECTRICITY,
    boundary="primitive",
)
source_electricity = scope.declare(
    "source.electricity, P_E [W as kW]: electric power of the source, almost all of it of its laser",
    equals=power / wall_plug,
    reference=_ELECTRICITY,
    target=True,
)
scope.approximation(
    source_electricity,
    laser_power / laser_efficiency,
    name="electricity_of_laser",
    valid=laser_power > number("0 W"),
    meaning="light of the laser, whatever becomes of it, by the laser's efficiency",
    reference=_ELECTRICITY,
)
