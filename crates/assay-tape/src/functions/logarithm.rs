//! Logarithms.

use super::cubic;
use super::double::{self, Double};

const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const LOG10_2: Double =
    Double { high: std::f64::consts::LOG10_2, low: -2.803_728_127_785_170_4e-18 };

/// `(2 atanh(s) - 2 s) / s^3` by powers of `s^2`, for `m = (1 + s) / (1 - s)` from
/// sqrt(1/2) to sqrt(2): Chebyshev fit, error below 2^-51 of terms that are at most 1/34.
const LOG_COEFFICIENTS: [f64; 7] = [
    0.666_666_666_666_667,
    0.399_999_999_998_994_44,
    0.285_714_286_260_032_7,
    0.222_222_111_302_598_78,
    0.181_828_894_556_749_47,
    0.153_317_106_182_107_73,
    0.146_165_854_248_886_23,
];

/// `2 atanh(s) / ln 2` divided by `s`, by powers of `s^2`: the first two terms exactly, in two
/// floats each, the rest fitted with an error below 2^-70 of the whole.
const LOG2_FIRST: Double =
    Double { high: 2.885_390_081_777_926_8, low: 4.071_054_748_186_206_6e-17 };
const LOG2_SECOND: Double =
    Double { high: 0.961_796_693_925_975_6, low: 5.057_761_664_812_590_7e-17 };
const LOG2_COEFFICIENTS: [f64; 8] = [
    0.577_078_016_355_585_3,
    0.412_198_583_111_143_9,
    0.320_598_897_967_154_7,
    0.262_308_191_468_152_2,
    0.221_952_788_585_106_7,
    0.192_380_566_030_363_85,
    0.168_885_291_144_581_37,
    0.169_129_716_641_221_53,
];

/// `x` as `2^exponent * mantissa`, the mantissa between sqrt(1/2) and sqrt(2).
///
/// Meaningless for zero, negative, infinite and NaN `x`.
#[inline(always)]
fn decompose(x: f64) -> (f64, f64) {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    const TWO_TO_52: u64 = 0x4330_0000_0000_0000;
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let bits = scaled.to_bits().wrapping_add(ONE - SQRT_HALF);
    let biased = f64::from_bits((bits >> 52) | TWO_TO_52);
    let bias =
        if subnormal { 4_503_599_627_370_496.0 + 1077.0 } else { 4_503_599_627_370_496.0 + 1023.0 };
    let mantissa = (bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF);
    (biased - bias, f64::from_bits(mantissa))
}

/// The logarithm `result` of `x`, corrected where `x` is not a positive finite number.
#[inline(always)]
fn with_special_cases(x: f64, result: f64) -> f64 {
    let result = if x < f64::INFINITY { result } else { x };
    let result = if x == 0.0 { f64::NEG_INFINITY } else { result };
    if x < 0.0 { f64::NAN } else { result }
}

/// Natural logarithm; less than 1 unit in the last place off.
#[inline(always)]
pub(crate) fn log(x: f64) -> f64 {
    let (exponent, mantissa) = decompose(x);
    let f = mantissa - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    // With h = f^2 / 2, 2 s = f - s f gives log(1 + f) = f - (h - s (h + z T)), where what is
    // rounded first is small beside f.
    let half_square = 0.5 * f * f;
    let [c0, c1, c2, c3, c4, c5, c6] = LOG_COEFFICIENTS;
    let square = z * z;
    let upper = (c4 + c5 * z) + c6 * square;
    let series = cubic([c0, c1, c2, c3], z, square) + upper * (square * square);
    let tail = s * (half_square + z * series) + exponent * LN_2_LOW;
    let result = exponent * LN_2_HIGH - ((half_square - tail) - f);
    with_special_cases(x, result)
}

/// A positive finite number `2^exponent (1 + s) / (1 - s)`.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) exponent: f64,
    pub(crate) s: Double,
}

impl Ratio {
    #[inline(always)]
    pub(crate) fn of(x: f64) -> Ratio {
        let (exponent, mantissa) = decompose(x);
        let f = mantissa - 1.0;
        // 1 + mantissa does not always fit a float; mantissa - (denominator - 1) is what is lost.
        let denominator = 1.0 + mantissa;
        let lost = mantissa - (denominator - 1.0);
        let reciprocal = 1.0 / denominator;
        let quotient = f * reciprocal;
        let back = double::product(quotient, denominator);
        let remainder = ((f - back.high) - back.low) - quotient * lost;
        let s = double::sum(quotient, remainder * reciprocal);
        Ratio { exponent, s }
    }

    /// The logarithm to base 2, wrong by less than 2^-64 of it.
    #[inline(always)]
    pub(crate) fn log2(self) -> Double {
        let z = self.s.times(self.s);
        let [c0, c1, c2, c3, c4, c5, c6, c7] = LOG2_COEFFICIENTS;
        let square = z.high * z.high;
        let upper = cubic([c4, c5, c6, c7], z.high, square);
        let tail = z.high * (cubic([c0, c1, c2, c3], z.high, square) + upper * (square * square));
        let second = double::sum(LOG2_SECOND.high, tail);
        let second = Double { high: second.high, low: second.low + LOG2_SECOND.low };
        let series = z.times(second).plus_larger(LOG2_FIRST);
        let fraction = self.s.times(series);
        let whole = double::sum(self.exponent, fraction.high);
        double::sum(whole.high, whole.low + fraction.low)
    }
}

/// Logarithm to base 2; correctly rounded but for rare last places, exact for powers of two.
#[inline(always)]
pub(crate) fn log2(x: f64) -> f64 {
    with_special_cases(x, Ratio::of(x).log2().high)
}

/// Logarithm to base 10; correctly rounded but for rare last places, exact for powers of ten.
#[inline(always)]
pub(crate) fn log10(x: f64) -> f64 {
    with_special_cases(x, Ratio::of(x).log2().times(LOG10_2).high)
}
