"""The resist: light comes in photons, and few of them print a contact.

A dose is an average. The photons that fall on a feature are Poisson distributed, so that their number varies by its
square root; only those that the resist absorbs count, which makes it worse. Where too few are absorbed a contact stays
closed: rare, but a wafer has many.
"""

from __future__ import annotations

import math

from assay.model import POSITIVE, atan, cited, erf, sqrt
from assay.stack.lithography.optics import process_factor, resolution
from assay.stack.lithography.scanner import dose
from assay.stack.lithography.source import photon_energy, scope
from assay.stack.manufacturing import wafers

_NOISE = cited("Mack 2007, Fundamental Principles of Optical Lithography", "stochastic modeling: photon shot noise")
_FAILURE = cited(
    "De Bisschop 2017, Stochastic effects in EUV lithography: random, local CD variability, and printing failures, "
    "Journal of Micro/Nanolithography 16(4)",
    "failure probability of contacts by dose and size",
)

_TRANSFER = cited(
    "Goodman 2005, Introduction to Fourier Optics, 3rd edition",
    "sec. 6.3, optical transfer function of a circular pupil",
)
_SLOPE = cited(
    "Mack 2007, Fundamental Principles of Optical Lithography",
    "ch. 8, lithographic control: normalized image log-slope and exposure latitude",
)

flux = scope.declare(
    "resist.photons_by_area, Phi [1/m^2 as 1/nm^2]: photons by area",
    equals=dose / photon_energy,
    reference=_NOISE,
    target=True,
)
feature = scope.declare(
    "resist.feature, a_f [m as nm]: side of a square feature; unless given, the resolution",
    equals=resolution,
    bounds=POSITIVE,
    reference=_NOISE,
)
photons = scope.declare(
    "resist.photons, N_f: photons that fall on a feature, on average",
    equals=flux * feature**2,
    bounds=POSITIVE,
    reference=_NOISE,
    target=True,
)
arrived = scope.declare("resist.arrived, N_ph: photons that fall on one feature", reference=_NOISE, target=True)
scope.stochastic(
    arrived,
    "normal",
    photons,
    sqrt(photons),
    name="resist.shot_noise",
    meaning="Poisson, by its normal limit: drawn anew for each feature",
    reference=_NOISE,
)
noise = scope.declare(
    "resist.noise, s_N [1 as %]: relative standard deviation of the photons on a feature",
    equals=1 / sqrt(photons),
    reference=_NOISE,
    target=True,
)
absorption = scope.declare(
    "resist.absorption, a_r [1 as %]: share of the photons that the resist absorbs",
    bounds=("positive", 1),
    reference=_NOISE,
    boundary="primitive",
)
absorbed_noise = scope.declare(
    "resist.absorbed_noise, s_a [1 as %]: relative standard deviation of the photons that a feature absorbs",
    equals=1 / sqrt(photons * absorption),
    bounds=POSITIVE,
    reference=_NOISE,
    target=True,
)
margin = scope.declare(
    "resist.margin, m_d [1 as %]: shortfall of absorbed photons at which a contact fails to print",
    bounds=(0, 1),
    reference=_FAILURE,
    boundary="primitive",
)
# The image of dense lines is a sine; what its slope leaves of a size by dose is the margin.
_ratio = 1 / (4 * process_factor)
contrast = scope.declare(
    "image.contrast, C_i [1 as %]: contrast of dense lines at the resolution, in incoherent light; 0 at k_1 = 0.25",
    equals=2 / math.pi * (atan(sqrt(1 - _ratio**2) / _ratio) - _ratio * sqrt(1 - _ratio**2)),
    bounds=(0, 1),
    reference=_TRANSFER,
    target=True,
)
log_slope = scope.declare(
    "image.log_slope, NILS: relative slope of the image at the edge of a line, by the width of the line",
    equals=math.pi * contrast,
    reference=_SLOPE,
    target=True,
)
tolerance = scope.declare(
    "resist.tolerance, d_CD [1 as %]: share of its size that a feature may lack",
    bounds=("positive", 1),
    reference=_SLOPE,
    boundary="primitive",
)
scope.approximation(
    margin,
    log_slope / 2 * tolerance,
    name="resist.margin_of_image",
    valid=tolerance <= 0.5,
    meaning="both edges move by dose over slope",
    reference=_SLOPE,
)
failure = scope.declare(
    "resist.failure, p_f: probability that a contact fails to print: of a shortfall beyond the margin",
    equals=(1 - erf(margin / absorbed_noise / math.sqrt(2))) / 2,
    bounds=(0, 1),
    reference=_FAILURE,
    target=True,
)
contacts = scope.declare(
    "resist.contacts, rho_c [1/m^2 as 1/um^2]: contacts at the resolution by area of a die, over all layers",
    reference=_FAILURE,
    boundary="primitive",
)
other_defects = scope.declare(
    "resist.other_defects, D_o [1/m^2 as 1/cm^2]: killer defects by area that are not of the exposure",
    reference=_FAILURE,
    boundary="primitive",
)
scope.equation(
    wafers.defect_density,
    other_defects + contacts * failure,
    name="defect_density",
    meaning="particles and the like, and contacts that photons failed to print",
    reference=_FAILURE,
)
