//! The transforms of F(4, 3): four outputs of a correlation with three taps, by six products.
//!
//! Six inputs are a polynomial, evaluated at 0, +-A, +-B and infinity, as the taps are; the products at these
//! points give back the four outputs (Winograd 1980, "Arithmetic complexity of computations"; Lavin and Gray 2016,
//! arXiv:1509.09308). The points are not the usual 0, +-1 and +-2: A near 1 / B keeps the magnitudes of powers close
//! together, and errors at a third (Barabasz et al. 2018, arXiv:1803.10986, on the choice). All coefficients of the
//! input and output transforms are exact in single precision.

use crate::simd::Vector;

/// Products of a tile along one axis: the points.
pub(super) const POINTS: usize = 6;
/// Outputs of a tile along one axis.
pub(super) const OUTPUTS: usize = 4;
/// Taps along one axis.
pub(super) const TAPS: usize = 3;

const A: f32 = 0.625;
const B: f32 = 1.5;
const A2: f32 = A * A;
const B2: f32 = B * B;

/// A linear map of `FROM` vectors to `TO`. A trait rather than closures: its functions are always inlined, so that they
/// are compiled with the level's instructions.
pub(super) trait Transform<const FROM: usize, const TO: usize> {
    fn apply<V: Vector>(v: V, from: [V::F; FROM]) -> [V::F; TO];

    /// Transforms the columns of a square, then its rows.
    #[inline(always)]
    fn apply_to_square<V: Vector>(v: V, square: &[[V::F; FROM]; FROM]) -> [[V::F; TO]; TO] {
        let zero = v.splat(0.0);
        let mut half = [[zero; FROM]; TO];
        for column in 0..FROM {
            let mut values = [zero; FROM];
            for row in 0..FROM {
                values[row] = square[row][column];
            }
            let values = Self::apply(v, values);
            for row in 0..TO {
                half[row][column] = values[row];
            }
        }
        let mut whole = [[zero; TO]; TO];
        for row in 0..TO {
            whole[row] = Self::apply(v, half[row]);
        }
        whole
    }
}

/// Six inputs at the points.
pub(super) struct Inputs;

impl Transform<POINTS, POINTS> for Inputs {
    #[inline(always)]
    fn apply<V: Vector>(v: V, x: [V::F; POINTS]) -> [V::F; POINTS] {
        let (a_even, a_odd) = (sub_scaled(v, x[4], B2, x[2]), sub_scaled(v, x[3], B2, x[1]));
        let (b_even, b_odd) = (sub_scaled(v, x[4], A2, x[2]), sub_scaled(v, x[3], A2, x[1]));
        [
            v.mul_add(v.splat(A2 * B2), x[0], sub_scaled(v, x[4], A2 + B2, x[2])),
            v.mul_add(v.splat(A), a_odd, a_even),
            sub_scaled(v, a_even, A, a_odd),
            v.mul_add(v.splat(B), b_odd, b_even),
            sub_scaled(v, b_even, B, b_odd),
            v.mul_add(v.splat(A2 * B2), x[1], sub_scaled(v, x[5], A2 + B2, x[3])),
        ]
    }
}

/// a - factor b.
#[inline(always)]
fn sub_scaled<V: Vector>(v: V, a: V::F, factor: f32, b: V::F) -> V::F {
    v.mul_add(v.splat(-factor), b, a)
}

/// Three taps at the points, each divided by the product of its distances from the other points.
pub(super) struct Filters;

impl Transform<TAPS, POINTS> for Filters {
    #[inline(always)]
    fn apply<V: Vector>(v: V, taps: [V::F; TAPS]) -> [V::F; POINTS] {
        const A_SCALE: f32 = 1.0 / (2.0 * A2 * (A2 - B2));
        const B_SCALE: f32 = 1.0 / (2.0 * B2 * (B2 - A2));
        let a_even = v.mul(v.splat(A_SCALE), v.mul_add(v.splat(A2), taps[2], taps[0]));
        let b_even = v.mul(v.splat(B_SCALE), v.mul_add(v.splat(B2), taps[2], taps[0]));
        let a_odd = v.mul(v.splat(A_SCALE * A), taps[1]);
        let b_odd = v.mul(v.splat(B_SCALE * B), taps[1]);
        [
            v.mul(v.splat(1.0 / (A2 * B2)), taps[0]),
            v.add(a_even, a_odd),
            v.sub(a_even, a_odd),
            v.add(b_even, b_odd),
            v.sub(b_even, b_odd),
            taps[2],
        ]
    }
}

/// Four outputs of the products at the points.
pub(super) struct Outputs;

impl Transform<POINTS, OUTPUTS> for Outputs {
    #[inline(always)]
    fn apply<V: Vector>(v: V, products: [V::F; POINTS]) -> [V::F; OUTPUTS] {
        let [zero, a, minus_a, b, minus_b, infinity] = products;
        let (a_even, a_odd) = (v.add(a, minus_a), v.sub(a, minus_a));
        let (b_even, b_odd) = (v.add(b, minus_b), v.sub(b, minus_b));
        [
            v.add(zero, v.add(a_even, b_even)),
            v.mul_add(v.splat(A), a_odd, v.mul(v.splat(B), b_odd)),
            v.mul_add(v.splat(A2), a_even, v.mul(v.splat(B2), b_even)),
            v.add(infinity, v.mul_add(v.splat(A * A2), a_odd, v.mul(v.splat(B * B2), b_odd))),
        ]
    }
}
