//! The exponential of softmax.

use crate::simd::Vector;

/// Below this bound the exponential is zero.
const LOWEST: f32 = -88.3;

/// exp(x) of x at most zero, with a relative error below 1e-6; zero below e^-88.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor polynomial of degree 6. Scores are at most the largest of their
/// row: 2^n needs no second factor as that of all numbers does, which costs attention over short rows a tenth.
#[inline(always)]
pub(super) fn exponential<V: Vector>(v: V, x: V::F) -> V::F {
    // The order of the arguments propagates NaN.
    let bounded = v.max(v.splat(LOWEST), x);
    let n = v.round(v.mul(bounded, v.splat(std::f32::consts::LOG2_E)));
    let r = v.mul_add(v.to_float(n), v.splat(-std::f32::consts::LN_2), bounded);
    let mut series = v.splat(1.0 / 720.0);
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = v.mul_add(series, r, v.splat(coefficient));
    }
    v.mul(series, v.power_of_two(n))
}
