//! Elementary functions, in pure Rust so that every machine computes the same bits.

pub(super) use libm::{atan, cos, erf, exp, expm1, log, log1p, log2, log10, pow, sin, tan, tanh};
