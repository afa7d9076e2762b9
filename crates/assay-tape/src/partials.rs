//! Partial derivatives of every operation, over many points.
//!
//! One function serves both modes: in forward mode, `seed` is the tangent of an operand and `into`
//! that of the result; in reverse mode, `seed` is the adjoint of the result and `into` that of the
//! operand. Either way `into += seed * partial`.
//!
//! Kinks have a derivative by convention: `abs` has slope 0 at 0, `minimum` and `maximum` follow
//! their first argument at a tie, rounding and comparisons have slope 0, and `modulo` has slope
//! 1 in `a` and `-floor(a / b)` in `b`.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use super::functions;
use super::op::Op;
use super::scalar_operations::{self, truth};

/// The primal values of an operation, one per lane: operands and result. Unused operands are
/// arbitrary.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrimalOperands<'a> {
    pub(super) op: Op,
    /// The `b` field of `powi`.
    pub(super) immediate: u32,
    pub(super) a: &'a [f64],
    pub(super) b: &'a [f64],
    pub(super) c: &'a [f64],
    pub(super) result: &'a [f64],
}

/// A product that is zero if either factor is, even if the other is infinite or NaN.
///
/// A path that contributes nothing must not spoil the sum, in either mode.
#[inline(always)]
fn chain(seed: f64, partial: f64) -> f64 {
    let product = seed * partial;
    if seed == 0.0 || partial == 0.0 { 0.0 } else { product }
}

// Macros for the reason given in `kernels`.

/// Adds seed times an expression in the lane of one row.
macro_rules! along {
    ($seed:expr, $into:expr, $row:expr, |$x:ident| $partial:expr) => {{
        let lanes = $into.len();
        let (row, seed) = (&$row[..lanes], &$seed[..lanes]);
        for lane in 0..lanes {
            let $x = row[lane];
            $into[lane] += chain(seed[lane], $partial);
        }
    }};
    ($seed:expr, $into:expr, $first:expr, $second:expr, |$x:ident, $y:ident| $partial:expr) => {{
        let lanes = $into.len();
        let (first, second, seed) = (&$first[..lanes], &$second[..lanes], &$seed[..lanes]);
        for lane in 0..lanes {
            let ($x, $y) = (first[lane], second[lane]);
            $into[lane] += chain(seed[lane], $partial);
        }
    }};
}

/// Adds `factor` times the seed.
#[inline(always)]
fn scaled(seed: &[f64], into: &mut [f64], factor: f64) {
    let seed = &seed[..into.len()];
    for lane in 0..into.len() {
        into[lane] += factor * seed[lane];
    }
}

/// Adds `seed` times the derivative by operand number `operand` (0 for `a`) to `into`.
#[inline(always)]
pub(super) fn accumulate(
    primal: &PrimalOperands<'_>,
    operand: usize,
    seed: &[f64],
    into: &mut [f64],
) {
    let PrimalOperands { op, immediate, a, b, c, result } = *primal;
    match (op, operand) {
        (Op::Add, _) | (Op::Sub, 0) | (Op::Modulo, 0) => scaled(seed, into, 1.0),
        (Op::Sub | Op::Neg, _) => scaled(seed, into, -1.0),
        (Op::Mul, 0) => along!(seed, into, b, |b| b),
        (Op::Mul, _) => along!(seed, into, a, |a| a),
        (Op::Div, 0) => along!(seed, into, b, |b| 1.0 / b),
        (Op::Div, _) => along!(seed, into, b, result, |b, quotient| -quotient / b),
        (Op::Pow, 0) => along!(seed, into, a, b, |a, b| power_by_base(a, b)),
        (Op::Pow, _) => along!(seed, into, a, result, |a, result| power_by_exponent(a, result)),
        (Op::Powi, _) => {
            let exponent = immediate as i32;
            along!(seed, into, a, |a| match exponent {
                0 => 0.0,
                _ => f64::from(exponent) * scalar_operations::powi(a, exponent - 1),
            });
        }
        (Op::Sqrt, _) => along!(seed, into, result, |root| 0.5 / root),
        (Op::Exp, _) => along!(seed, into, result, |power| power),
        (Op::Log, _) => along!(seed, into, a, |a| 1.0 / a),
        (Op::Log2, _) => along!(seed, into, a, |a| 1.0 / (a * LN_2)),
        (Op::Log10, _) => along!(seed, into, a, |a| 1.0 / (a * LN_10)),
        (Op::Expm1, _) => along!(seed, into, a, |a| functions::exp(a)),
        (Op::Log1p, _) => along!(seed, into, a, |a| 1.0 / (1.0 + a)),
        (Op::Abs, _) => along!(seed, into, a, |a| {
            let sign = 1.0_f64.copysign(a);
            if a == 0.0 { 0.0 } else { sign }
        }),
        (Op::Minimum, 0) => along!(seed, into, a, b, |a, b| truth(takes(a <= b, a))),
        (Op::Minimum, _) => along!(seed, into, a, b, |a, b| truth(!takes(a <= b, a))),
        (Op::Maximum, 0) => along!(seed, into, a, b, |a, b| truth(takes(a >= b, a))),
        (Op::Maximum, _) => along!(seed, into, a, b, |a, b| truth(!takes(a >= b, a))),
        (Op::Modulo, _) => along!(seed, into, a, b, |a, b| -(a / b).floor()),
        (Op::Sin, _) => along!(seed, into, a, |a| functions::cos(a)),
        (Op::Cos, _) => along!(seed, into, a, |a| -functions::sin(a)),
        (Op::Tan, _) => along!(seed, into, result, |tangent| 1.0 + tangent * tangent),
        (Op::Atan, _) => along!(seed, into, a, |a| 1.0 / (1.0 + a * a)),
        (Op::Tanh, _) => along!(seed, into, a, |a| tanh_slope(a)),
        (Op::Erf, _) => {
            along!(seed, into, a, |a| FRAC_2_SQRT_PI * functions::exp(-a * a));
        }
        (Op::Select, 0) => along!(seed, into, c, |c| truth(c != 0.0)),
        (Op::Select, 1) => along!(seed, into, c, |c| truth(c == 0.0)),
        // Flat almost everywhere; blocks and extracts are differentiated by their sweeps.
        (Op::Floor | Op::Ceil | Op::Round | Op::Select | Op::Block | Op::Extract, _)
        | (Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne, _)
        | (Op::And | Op::Or | Op::Not, _) => {}
    }
}

/// Whether `minimum` or `maximum` returned its first argument.
#[inline(always)]
fn takes(wins: bool, first: f64) -> bool {
    wins || first.is_nan()
}

/// `b a^(b - 1)`, which is 0 and not NaN at `b = 0`.
#[inline(always)]
fn power_by_base(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { b * functions::pow(a, b - 1.0) }
}

/// `a^b ln a`, which is 0 where the power itself is.
#[inline(always)]
fn power_by_exponent(a: f64, result: f64) -> f64 {
    if result == 0.0 { 0.0 } else { result * functions::log(a) }
}

/// `1 - tanh(a)^2` without cancellation.
#[inline(always)]
fn tanh_slope(a: f64) -> f64 {
    let decay = functions::exp(-2.0 * a.abs());
    4.0 * decay / ((1.0 + decay) * (1.0 + decay))
}
