//! The general power.

use super::double::{self, Double};
use super::exponential::{INTEGER_SHIFT, exp_reduced, power_of_two};
use super::logarithm::Ratio;

const LN_2: Double = Double { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };

/// `x` to the power `y`, with the special cases of C's `pow`; less than 1 unit in the last
/// place off.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    let regular = pow_regular(x, y);
    if regular.is_nan() { pow_irregular(x, y) } else { regular }
}

/// The power where `x` is a positive normal number and the result is normal too; NaN elsewhere.
#[inline(always)]
fn pow_regular(x: f64, y: f64) -> f64 {
    Scaled::of(y, Ratio::of(x).log2()).finish(x)
}

/// A power `2^exponent e^rest`, the rest at most ln(2) / 2.
#[derive(Clone, Copy)]
pub(crate) struct Scaled {
    pub(crate) exponent: f64,
    pub(crate) rest: Double,
}

impl Scaled {
    /// 2 to the power of `y` times a logarithm to base 2.
    #[inline(always)]
    pub(crate) fn of(y: f64, logarithm: Double) -> Scaled {
        let leading = double::product(y, logarithm.high);
        let exponent = (leading.high + INTEGER_SHIFT) - INTEGER_SHIFT;
        let trailing = leading.low + y * logarithm.low;
        let fraction = double::sum(leading.high - exponent, trailing);
        Scaled { exponent, rest: fraction.times(LN_2) }
    }

    /// The power itself, of `x`; NaN unless `x` and the power are positive normal numbers.
    #[inline(always)]
    pub(crate) fn finish(self, x: f64) -> f64 {
        let result = exp_reduced(self.rest.high, self.rest.low) * power_of_two(self.exponent);
        let regular = (f64::MIN_POSITIVE..f64::INFINITY).contains(&x);
        if regular && self.exponent.abs() < 1021.0 { result } else { f64::NAN }
    }
}

/// The power everywhere, slowly: for where [`pow_regular`] gives NaN.
#[cold]
pub(crate) fn pow_irregular(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
