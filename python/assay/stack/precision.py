"""Rounding: what a format does to a number, how far apart its numbers are, and the bytes that it takes.

Between two neighbors of a format lies a quantum that doubles with every power of two. Rounding to the nearest errs
by up to half of it, as if drawn evenly; rounding up with a probability equal to the way already gone is right on
average and errs more. Gradients have to be scaled so that the largest does not overflow and the smallest does not
vanish.
"""

from __future__ import annotations

import math

from assay.model import ANY_SIGN, POSITIVE, Scope, cited, floor, log2, log10, maximum, where
from assay.stack import formats, optimizer
from assay.stack.serving import deployment

scope = Scope("precision", "Rounding and the size of numbers")

_HIGHAM = "Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd edition"
_SPACING = cited(_HIGHAM, "sec. 2.1, floating point number system: spacing")
_UNIFORM = cited("NIST/SEMATECH 2012, e-Handbook of Statistical Methods", "sec. 1.3.6.6.2, uniform distribution")
_STOCHASTIC = cited(
    "Croci et al. 2022, Stochastic rounding: implementation, error analysis and applications, Royal Society Open "
    "Science 9",
    "definition and variance",
)
_SCALING = cited("Micikevicius et al. 2018, Mixed Precision Training", "sec. 3.2, loss scaling")
_MX = cited(
    "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537", "stored size by element"
)
_CODES = cited("IEEE 754-2019, Standard for Floating-Point Arithmetic", "sec. 3.4, encodings")

infinite_codes = scope.declare(
    "codes.infinite, n_inf: bit patterns of a format that are infinities",
    equals=where(formats.finite_only.is_("infinities"), 2, 0),
    reference=_CODES,
)
nan_codes = scope.declare(
    "codes.nan, n_nan: bit patterns of a format that are no numbers",
    equals=where(
        formats.finite_only.is_("infinities"),
        2 * (2**formats.mantissa_bits - 1),
        where(formats.finite_only.is_("nan"), 2, 0),
    ),
    reference=_CODES,
)
codes = scope.declare(
    "codes.finite, n_f: bit patterns of a format that are finite numbers, two zeros among them",
    equals=2**formats.bits - infinite_codes - nan_codes,
    reference=_CODES,
    target=True,
)
decades = scope.declare(
    "decades, d_x: decades between the smallest and the largest number of a format",
    equals=log10(formats.largest / formats.smallest_subnormal),
    reference=_SPACING,
    target=True,
)
normal_decades = scope.declare(
    "decades.normal, d_n: decades over which a format keeps its precision",
    equals=log10(formats.largest / formats.smallest_normal),
    reference=_SPACING,
    target=True,
)
number = scope.declare(
    "number, x: magnitude of a number to be stored", bounds=POSITIVE, reference=_SPACING, boundary="scenario"
)
quantum = scope.declare(
    "quantum, q: distance of a format's neighbors around a number",
    equals=2 ** (floor(log2(maximum(number, formats.smallest_normal))) - formats.mantissa_bits),
    bounds=POSITIVE,
    reference=_SPACING,
    target=True,
)
relative_quantum = scope.declare(
    "relative_quantum, q_r: that distance over the number, twice the largest relative error",
    equals=quantum / number,
    reference=_SPACING,
    target=True,
)
error_bound = scope.declare(
    "error.bound, e_b: largest relative error of a normal number that is rounded to the nearest",
    equals=formats.round_off,
    reference=_SPACING,
    target=True,
)
error = scope.declare(
    "error, e_x: error of rounding a number to the nearest", bounds=ANY_SIGN, reference=_UNIFORM, target=True
)
scope.stochastic(
    error,
    "uniform",
    -quantum / 2,
    quantum / 2,
    name="error.distribution",
    meaning="drawn evenly, anew for each number",
    reference=_UNIFORM,
)
error_deviation = scope.declare(
    "error.deviation, s_x: standard deviation of that error",
    equals=quantum / math.sqrt(12),
    reference=_UNIFORM,
    target=True,
)
below = scope.declare(
    "stochastic.below, x_lo: next number of the format below",
    equals=floor(number / quantum) * quantum,
    reference=_STOCHASTIC,
)
up_probability = scope.declare(
    "stochastic.up, p_up: probability that stochastic rounding rounds up: the share of the way to the next number",
    equals=(number - below) / quantum,
    bounds=(0, 1),
    reference=_STOCHASTIC,
    target=True,
)
stochastic_deviation = scope.declare(
    "stochastic.deviation, s_SR: standard deviation of the error of stochastic rounding, which is 0 on average",
    equals=quantum * (up_probability * (1 - up_probability)) ** 0.5,
    reference=_STOCHASTIC,
    target=True,
)
largest_gradient = scope.declare(
    "gradient.largest, g_max: largest magnitude among gradients", bounds=POSITIVE, reference=_SCALING,
    boundary="scenario",
)  # fmt: skip
smallest_gradient = scope.declare(
    "gradient.smallest, g_min: smallest magnitude among gradients that matter", bounds=POSITIVE, reference=_SCALING,
    boundary="scenario",
)  # fmt: skip
largest_scale = scope.declare(
    "scale.largest, S_max: loss scale above which the largest gradient overflows",
    equals=formats.largest / largest_gradient,
    reference=_SCALING,
    target=True,
)
smallest_scale = scope.declare(
    "scale.smallest, S_min: loss scale below which the smallest gradient vanishes",
    equals=formats.smallest_subnormal / smallest_gradient,
    reference=_SCALING,
    target=True,
)
scope.inequality(
    "scale.exists",
    smallest_scale <= largest_scale,
    "one loss scale keeps the smallest gradient and the largest",
    reference=_SCALING,
)
scope.equation(
    deployment.weight_bytes,
    formats.element_size,
    name="weight_bytes",
    meaning="stored weights in this format, with their share of scales",
    reference=_MX,
)
scope.equation(
    deployment.kv_bytes,
    formats.element_size,
    name="kv_bytes",
    meaning="keys and values in this format, with their share of scales",
    reference=_MX,
)
scope.equation(
    optimizer.moment_bytes,
    formats.element_size,
    name="moment_bytes",
    meaning="moments in this format, with their share of scales",
    reference=_MX,
)
