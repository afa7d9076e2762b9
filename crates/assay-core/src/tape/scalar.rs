//! What each operation computes, for one point.
//!
//! The vector kernels call these same functions, lane by lane, so that a value is bit for bit
//! the same whether it is computed once per call or once per point.

use super::functions;
use super::op::Op;

/// `1.0` for true, `0.0` for false.
#[inline(always)]
pub(super) fn truth(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// Smaller of two, NaN if either is, the first at a tie.
#[inline(always)]
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a <= b || a.is_nan() { a } else { b }
}

/// Larger of two, NaN if either is, the first at a tie.
#[inline(always)]
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// Remainder with the sign of the divisor.
#[inline(always)]
pub(super) fn modulo(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    if remainder == 0.0 {
        0.0_f64.copysign(b)
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder + b
    } else {
        remainder
    }
}

/// Integer power by repeated squaring, lowest bit of the exponent first.
#[inline(always)]
pub(super) fn powi(base: f64, exponent: i32) -> f64 {
    let mut remaining = exponent.unsigned_abs();
    let mut square = base;
    let mut product = 1.0;
    while remaining > 0 {
        if remaining & 1 == 1 {
            product *= square;
        }
        remaining >>= 1;
        if remaining > 0 {
            square *= square;
        }
    }
    if exponent < 0 { 1.0 / product } else { product }
}

/// Either of two by a condition.
#[inline(always)]
pub(super) fn select(a: f64, b: f64, condition: f64) -> f64 {
    if condition != 0.0 { a } else { b }
}

/// The result of `op` for these operands; `immediate` is the `b` field of `powi`.
///
/// Blocks and extracts are not functions of three numbers; the callers handle them.
pub(super) fn apply(op: Op, a: f64, b: f64, c: f64, immediate: u32) -> f64 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Neg => -a,
        Op::Pow => functions::pow(a, b),
        Op::Powi => powi(a, immediate as i32),
        Op::Sqrt => a.sqrt(),
        Op::Exp => functions::exp(a),
        Op::Log => functions::log(a),
        Op::Log2 => functions::log2(a),
        Op::Log10 => functions::log10(a),
        Op::Expm1 => functions::expm1(a),
        Op::Log1p => functions::log1p(a),
        Op::Abs => a.abs(),
        Op::Minimum => minimum(a, b),
        Op::Maximum => maximum(a, b),
        Op::Floor => a.floor(),
        Op::Ceil => a.ceil(),
        Op::Round => a.round_ties_even(),
        Op::Modulo => modulo(a, b),
        Op::Sin => functions::sin(a),
        Op::Cos => functions::cos(a),
        Op::Tan => functions::tan(a),
        Op::Atan => functions::atan(a),
        Op::Tanh => functions::tanh(a),
        Op::Erf => functions::erf(a),
        Op::Lt => truth(a < b),
        Op::Le => truth(a <= b),
        Op::Gt => truth(a > b),
        Op::Ge => truth(a >= b),
        Op::Eq => truth(a == b),
        Op::Ne => truth(a != b),
        Op::And => truth(a != 0.0 && b != 0.0),
        Op::Or => truth(a != 0.0 || b != 0.0),
        Op::Not => truth(a == 0.0),
        Op::Select => select(a, b, c),
        Op::Block | Op::Extract => f64::NAN,
    }
}
