"""Number formats: range, precision and stored size of a floating-point format."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, cited, minimum, number, where

scope = Scope("formats", "Number formats")

_IEEE = cited("IEEE 754-2019, Standard for Floating-Point Arithmetic", "sec. 3.3 and 3.4")
_FP8 = cited("Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433", "Table 1")
_ROUNDING = cited("Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd edition", "sec. 2.1")
_MX = cited(
    "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537",
    "element formats and shared scales",
)

exponent_bits = scope.declare(
    "exponent_bits, e: bits of the exponent field", bounds=(1, None), reference=_IEEE, boundary="scenario"
)
mantissa_bits = scope.declare(
    "mantissa_bits, m: bits of the fraction field, without the implicit leading bit",
    reference=_IEEE,
    boundary="scenario",
)
finite_only = scope.choice(
    "finite_only, g: codes of the largest exponent",
    {
        "infinities": "infinities and NaN (IEEE 754)",
        "nan": "finite numbers and, all ones, NaN (E4M3)",
        "finite": "finite numbers only (E2M1, E2M3, E3M2)",
    },
    reference=_MX,
    boundary="scenario",
)
bits = scope.declare(
    "bits, b: bits of a number: sign, exponent and fraction", equals=1 + exponent_bits + mantissa_bits, reference=_IEEE
)
bias = scope.declare(
    "bias, e_0: value subtracted from the exponent field", equals=2 ** (exponent_bits - 1) - 1, reference=_IEEE
)
largest_exponent = scope.declare(
    "largest_exponent, e_max: exponent of the largest number",
    equals=2**exponent_bits - 2 + minimum(finite_only, 1) - bias,
    reference=_FP8,
)
# E4M3 loses the all-ones fraction at its largest exponent to NaN; the other formats keep it.
_lost_fraction = where(finite_only.is_("nan"), 2 ** (1 - mantissa_bits), 2 ** (-mantissa_bits))
largest = scope.declare(
    "largest, x_max: largest finite number", equals=(2 - _lost_fraction) * 2**largest_exponent, reference=_MX
)
smallest_normal = scope.declare(
    "smallest_normal, x_min: smallest normal number", bounds=POSITIVE, equals=2 ** (1 - bias), reference=_IEEE
)
smallest_subnormal = scope.declare(
    "smallest_subnormal, x_sub: smallest subnormal number",
    bounds=POSITIVE,
    equals=smallest_normal * 2 ** (-mantissa_bits),
    reference=_IEEE,
)
round_off = scope.declare(
    "round_off, u: unit roundoff: largest relative error of rounding to nearest",
    equals=2 ** (-mantissa_bits - 1),
    reference=_ROUNDING,
)
block_size = scope.declare(
    "block.size, k: elements per block scale", bounds=(1, None), reference=_MX, boundary="scenario"
)
scale_bits = scope.declare(
    "block.scale_bits, w: bits of the block scale; 0 without one", reference=_MX, boundary="scenario"
)
element_size = scope.declare(
    "element_size, s [byte]: stored bytes per element, including its share of the block scale",
    equals=number("0.125 byte") * (bits + scale_bits / block_size),
    reference=_MX,
)
