//! Vector math functions without instructions.

use super::vector::Vector;

/// Beyond these bounds the exponential is zero or infinite.
const LOWEST: f32 = -88.3;
const HIGHEST: f32 = 88.73;

/// exp(x), within 2 ulp of normal results; zero below them, infinite above.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; 2^n is applied as two factors, because 2^128 overflows
/// before the result does. 2^-127 has the bits of zero: subnormal results, each of which costs an
/// x86 core more than a hundred cycles, are not computed. Masked scores and saturated gates have them.
#[inline(always)]
pub(crate) fn exponential<V: Vector>(v: V, x: V::F) -> V::F {
    // The order of the arguments propagates NaN.
    let bounded = v.min(v.splat(HIGHEST + 1.0), v.max(v.splat(LOWEST), x));
    let n = v.round(v.mul(bounded, v.splat(std::f32::consts::LOG2_E)));
    let whole = v.to_float(n);
    // ln 2 in two parts, the first with few enough bits that its products are exact.
    let r = v.mul_add(whole, v.splat(-0.693_359_4), bounded);
    let r = v.mul_add(whole, v.splat(2.121_944_4e-4), r);
    let mut series = v.splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = v.mul_add(series, r, v.splat(coefficient));
    }
    let most = v.round(v.min(whole, v.splat(127.0)));
    let rest = v.add_i(n, v.mul_i(most, v.splat_i(-1)));
    v.mul(v.mul(series, v.power_of_two(most)), v.power_of_two(rest))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn logistic<V: Vector>(v: V, x: V::F) -> V::F {
    let one = v.splat(1.0);
    let power = exponential(v, v.sub(v.splat(0.0), x));
    v.div(one, v.add(one, power))
}

/// The hyperbolic tangent, as 1 - 2 / (e^2x + 1); absolute error below 2e-7.
#[inline(always)]
pub(crate) fn tanh<V: Vector>(v: V, x: V::F) -> V::F {
    let one = v.splat(1.0);
    let power = exponential(v, v.add(x, x));
    v.sub(one, v.div(v.splat(2.0), v.add(power, one)))
}

/// sin(x), within 2e-7 for arguments up to 8,192; NaN where x is infinite.
///
/// x = n pi + r with |r| <= pi / 2, pi in three parts as in Cephes, and the odd Taylor polynomial of degree 11.
#[inline(always)]
pub(crate) fn sine<V: Vector>(v: V, x: V::F) -> V::F {
    let n = v.to_float(v.round(v.mul(x, v.splat(std::f32::consts::FRAC_1_PI))));
    let mut r = x;
    for part in [3.140_625, 9.675_026e-4, 1.509_958e-7] {
        r = v.mul_add(n, v.splat(-part), r);
    }
    let square = v.mul(r, r);
    let mut series = v.splat(-1.0 / 39_916_800.0);
    for coefficient in [1.0 / 362_880.0, -1.0 / 5_040.0, 1.0 / 120.0, -1.0 / 6.0] {
        series = v.mul_add(series, square, v.splat(coefficient));
    }
    let positive = v.mul_add(v.mul(series, square), r, r);
    // n is odd where it differs from twice the integer nearest to its half.
    let half = v.to_float(v.round(v.mul(n, v.splat(0.5))));
    let odd = v.mul_add(half, v.splat(-2.0), n);
    let sign = v.mul_add(v.mul(odd, odd), v.splat(-2.0), v.splat(1.0));
    v.mul_add(positive, sign, v.sub(x, x))
}

/// The error function, by formula 7.1.26 of Abramowitz and Stegun; absolute error below 5e-7.
#[inline(always)]
pub(crate) fn error_function<V: Vector>(v: V, x: V::F) -> V::F {
    let (zero, one) = (v.splat(0.0), v.splat(1.0));
    let magnitude = v.max(v.sub(zero, x), x);
    let t = v.div(one, v.mul_add(magnitude, v.splat(0.327_591_1), one));
    let mut series = v.splat(1.061_405_4);
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = v.mul_add(series, t, v.splat(coefficient));
    }
    let power = exponential(v, v.sub(zero, v.mul(x, x)));
    let positive = v.sub(one, v.mul(v.mul(series, t), power));
    // Odd: the sign of x, without a division by zero.
    let sign = v.max(v.splat(-1.0), v.min(one, v.mul(x, v.splat(f32::MAX))));
    v.mul(sign, positive)
}
