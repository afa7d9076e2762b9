//! Elementary functions, in pure Rust so that every machine computes the same bits.
//!
//! The frequent ones are written without branches and without fused multiply-add, so that the
//! compiler can run them over vectors of any width with unchanged results. The rare ones are
//! scalar.

mod double;
mod exponential;
mod logarithm;
mod power;

pub(super) use double::Double;
pub(super) use exponential::exp;
pub(super) use libm::{atan, cos, erf, expm1, log1p, sin, tan, tanh};
pub(super) use logarithm::{Ratio, log, log2, log10};
pub(super) use power::{Scaled, pow, pow_irregular};

/// Four terms of a polynomial, given `x` and its square.
///
/// Longer polynomials are made of these (Estrin's scheme). Horner's takes fewer multiplications,
/// but each of its steps depends on the one before, which leaves the multipliers of a CPU
/// idle.
#[inline(always)]
fn cubic(terms: [f64; 4], x: f64, square: f64) -> f64 {
    (terms[0] + terms[1] * x) + (terms[2] + terms[3] * x) * square
}
