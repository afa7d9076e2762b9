//! The general power.

use super::double::{self, Double};
use super::exponential::{INTEGER_SHIFT, exp_reduced, power_of_two};
use super::logarithm::log2_double;

const LN_2: Double = Double {
    high: std::f64::consts::LN_2,
    low: 2.319_046_813_846_299_6e-17,
};

/// `x` to the power `y`, with the special cases of C's `pow`; less than 1 unit in the last
/// place off.
pub(in super::super) fn pow(x: f64, y: f64) -> f64 {
    let regular = pow_regular(x, y);
    if regular.is_nan() {
        pow_irregular(x, y)
    } else {
        regular
    }
}

/// The power where `x` is a positive normal number and the result is normal too; NaN elsewhere.
#[inline(always)]
pub(in super::super) fn pow_regular(x: f64, y: f64) -> f64 {
    let logarithm = log2_double(x);
    let leading = double::product(y, logarithm.high);
    let rest = leading.low + y * logarithm.low;
    let exponent = (leading.high + INTEGER_SHIFT) - INTEGER_SHIFT;
    let fraction = double::sum(leading.high - exponent, rest);
    let reduced = fraction.times(LN_2);
    let result = exp_reduced(reduced.high, reduced.low) * power_of_two(exponent);
    let in_range = leading.high.abs() < 1021.0;
    if in_range && (f64::MIN_POSITIVE..f64::INFINITY).contains(&x) {
        result
    } else {
        f64::NAN
    }
}

/// The power everywhere, slowly: for where [`pow_regular`] gives NaN.
#[cold]
pub(in super::super) fn pow_irregular(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
