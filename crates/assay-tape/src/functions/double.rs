//! Numbers as unevaluated sums of two floats, for intermediate results with about 100 bits.

/// The sum `high + low`, with `low` below half a unit in the last place of `high`.
#[derive(Clone, Copy)]
pub(crate) struct Double {
    pub(crate) high: f64,
    pub(crate) low: f64,
}

/// The upper 26 bits of a float; the rest is what is left after subtracting them.
#[inline(always)]
fn upper_half(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0xffff_ffff_f800_0000)
}

/// `a + b` without error, for `|a| >= |b|`.
#[inline(always)]
pub(super) fn sum(a: f64, b: f64) -> Double {
    let high = a + b;
    Double { high, low: b - (high - a) }
}

/// `a * b`, wrong by less than 2^-105 of it (Dekker's product on halves).
#[inline(always)]
pub(super) fn product(a: f64, b: f64) -> Double {
    let (a_high, b_high) = (upper_half(a), upper_half(b));
    let (a_low, b_low) = (a - a_high, b - b_high);
    let high = a * b;
    let low = ((a_high * b_high - high) + (a_high * b_low + a_low * b_high)) + a_low * b_low;
    Double { high, low }
}

impl Double {
    /// This times another, wrong by a few 2^-104 of it.
    #[inline(always)]
    pub(super) fn times(self, other: Double) -> Double {
        let leading = product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        sum(leading.high, leading.low + cross)
    }

    /// This plus a larger number.
    #[inline(always)]
    pub(super) fn plus_larger(self, larger: Double) -> Double {
        let leading = sum(larger.high, self.high);
        sum(leading.high, leading.low + (larger.low + self.low))
    }
}
