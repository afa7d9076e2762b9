//! Elementary functions, in pure Rust so that every machine computes the same bits.
//!
//! The frequent ones are written without branches and without fused multiply-add, so that the
//! compiler can run them over vectors of any width with unchanged results. The rare ones are
//! scalar.

mod double;
mod exponential;
mod logarithm;
mod power;

pub(super) use exponential::exp;
pub(super) use libm::{atan, cos, erf, expm1, log1p, sin, tan, tanh};
pub(super) use logarithm::{log, log2, log10};
pub(super) use power::{pow, pow_irregular, pow_regular};
