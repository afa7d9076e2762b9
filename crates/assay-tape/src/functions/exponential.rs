//! The exponential function.

use super::{cubic, double};

/// Adding this rounds a float below 2^51 to an integer, which then fills the lowest bits.
pub(super) const INTEGER_SHIFT: f64 = 6_755_399_441_055_744.0;

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 to 32 bits, so that its product with an exponent is exact, and the rest of it.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2) / 2`: Chebyshev fit, error below 2^-59.
const COEFFICIENTS: [f64; 11] = [
    0.5,
    0.166_666_666_666_666_7,
    0.041_666_666_666_666_67,
    0.008_333_333_333_326_14,
    0.001_388_888_888_888_375_2,
    0.000_198_412_698_748_042_14,
    2.480_158_732_553_602_3e-5,
    2.755_725_542_102_350_6e-6,
    2.755_727_365_797_595_3e-7,
    2.510_520_833_998_769_8e-8,
    2.091_468_078_054_026_3e-9,
];

/// e to the power `x`; less than 0.8 units in the last place off.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Beyond these the result is infinite or zero anyway; NaN passes through.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let exponent = (x * LOG2_E + INTEGER_SHIFT) - INTEGER_SHIFT;
    let high = x - exponent * LN_2_HIGH;
    let low = exponent * LN_2_LOW;
    let r = high - low;
    // In two factors, because 2^exponent alone may be too large or too small for a float.
    let half = (exponent * 0.5 + INTEGER_SHIFT) - INTEGER_SHIFT;
    exp_reduced(r, (high - r) - low) * power_of_two(half) * power_of_two(exponent - half)
}

/// `exp(r + rest)` for `|r| <= ln(2) / 2` and a `rest` below the last place of `r`.
#[inline(always)]
pub(super) fn exp_reduced(r: f64, rest: f64) -> f64 {
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10] = COEFFICIENTS;
    let square = r * r;
    let fourth = square * square;
    let middle = cubic([c4, c5, c6, c7], r, square);
    let upper = (c8 + c9 * r) + c10 * square;
    let series = cubic([c0, c1, c2, c3], r, square) + (middle + upper * fourth) * fourth;
    let linear = double::sum(1.0, r);
    linear.high + (linear.low + (square * series + rest))
}

/// 2 to an integer power in the range of normal floats.
#[inline(always)]
pub(super) fn power_of_two(exponent: f64) -> f64 {
    let lowest_bits = (exponent + INTEGER_SHIFT).to_bits();
    f64::from_bits(lowest_bits.wrapping_add(1023) << 52)
}
