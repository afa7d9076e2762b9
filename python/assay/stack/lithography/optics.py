"""Optics: what the wavelength and the angle of light can resolve, and what its mirrors lose."""

from __future__ import annotations

from assay.model import POSITIVE, cited, sin
from assay.stack.lithography.source import scope, wavelength

_MACK = "Mack 2007, Fundamental Principles of Optical Lithography"
_RAYLEIGH = cited(_MACK, "ch. 1, Rayleigh criteria for resolution and depth of focus")
_MIRRORS = cited("Bakshi 2018, EUV Lithography, 2nd edition", "multilayer mirrors: reflectivity near 0.7")

index = scope.declare(
    "optics.index, n: refractive index of the medium; unless given, 1, of vacuum",
    equals=1,
    bounds=POSITIVE,
    reference=_RAYLEIGH,
)
angle = scope.declare(
    "optics.angle, theta: half angle of the cone of light at the wafer, in radians",
    bounds=(0, 1.5708),
    reference=_RAYLEIGH,
    boundary="primitive",
)
aperture = scope.declare(
    "optics.aperture, NA: numerical aperture", equals=index * sin(angle), bounds=POSITIVE, reference=_RAYLEIGH
)
process_factor = scope.declare(
    "optics.process_factor, k_1: resolution over wavelength by aperture; 0.25 is the limit of one exposure",
    bounds=(0.25, None),
    reference=_RAYLEIGH,
    boundary="primitive",
)
resolution = scope.declare(
    "optics.resolution, CD [m as nm]: smallest half pitch that one exposure prints",
    equals=process_factor * wavelength / aperture,
    bounds=POSITIVE,
    reference=_RAYLEIGH,
    target=True,
)
focus_factor = scope.declare(
    "optics.focus_factor, k_2: depth of focus over wavelength by aperture squared; unless given, 1",
    equals=1,
    reference=_RAYLEIGH,
)
focus_depth = scope.declare(
    "optics.focus_depth, DOF [m as nm]: depth of focus",
    equals=focus_factor * wavelength / aperture**2,
    reference=_RAYLEIGH,
    target=True,
)
reflectivity = scope.declare(
    "optics.reflectivity, R_m [1 as %]: reflectivity of a mirror",
    bounds=(0, 1),
    reference=_MIRRORS,
    boundary="primitive",
)
mirrors = scope.declare(
    "optics.mirrors, n_m: mirrors from source to wafer, the mask among them", reference=_MIRRORS, boundary="primitive"
)
transmission = scope.declare(
    "optics.transmission, T_o [1 as %]: share of the source's light that its mirrors pass to the wafer",
    equals=reflectivity**mirrors,
    bounds=(0, 1),
    reference=_MIRRORS,
    target=True,
)
