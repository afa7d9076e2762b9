//! Transforms of sixteen sequences at once, one in each lane: Stockham's autosort in mixed radix.

use super::plan::{MOST_RADIX, Plan, Stage};
use crate::simd::{LANES, Vector};

/// One element of sixteen sequences.
pub(super) type Lane = [f32; LANES];

/// A complex vector.
type Pair<V> = (<V as Vector>::F, <V as Vector>::F);

/// Real and imaginary parts, and room for as many.
pub(super) struct Work<'a> {
    pub re: &'a mut [Lane],
    pub im: &'a mut [Lane],
    other_re: &'a mut [Lane],
    other_im: &'a mut [Lane],
}

impl<'a> Work<'a> {
    /// Floats that sequences of a length need.
    pub fn floats(length: usize) -> usize {
        4 * LANES * length
    }

    pub fn new(memory: &'a mut [f32], length: usize) -> Self {
        let lanes = memory.as_chunks_mut::<LANES>().0;
        let (re, rest) = lanes.split_at_mut(length);
        let (im, rest) = rest.split_at_mut(length);
        let (other_re, rest) = rest.split_at_mut(length);
        Work { re, im, other_re, other_im: &mut rest[..length] }
    }

    /// Transforms the sequences in place.
    #[inline(always)]
    pub fn transform<V: Vector>(&mut self, v: V, plan: &Plan) {
        for stage in &plan.stages {
            let from = (&*self.re, &*self.im);
            let to = (&mut *self.other_re, &mut *self.other_im);
            match stage.radix {
                2 => butterflies::<V, Radix2, 2>(v, stage, from, to),
                3 => butterflies::<V, Radix3, 3>(v, stage, from, to),
                4 => butterflies::<V, Radix4, 4>(v, stage, from, to),
                5 => butterflies::<V, Radix5, 5>(v, stage, from, to),
                _ => any_radix(v, stage, from, to),
            }
            std::mem::swap(&mut self.re, &mut self.other_re);
            std::mem::swap(&mut self.im, &mut self.other_im);
        }
    }
}

/// The transform of a few elements. A type, not a function that is passed: a call of a function would not be inlined,
/// and compiled without the level's instructions.
trait Butterfly<const R: usize> {
    fn apply<V: Vector>(v: V, inputs: [Pair<V>; R]) -> [Pair<V>; R];
}

/// A stage of a small radix.
#[inline(always)]
fn butterflies<V: Vector, B: Butterfly<R>, const R: usize>(
    v: V,
    stage: &Stage,
    (re, im): (&[Lane], &[Lane]),
    (to_re, to_im): (&mut [Lane], &mut [Lane]),
) {
    let (blocks, stride) = (stage.blocks, stage.stride);
    for block in 0..blocks {
        let twiddles = &stage.twiddles[block * (R - 1)..(block + 1) * (R - 1)];
        for place in 0..stride {
            let mut inputs = [(v.splat(0.0), v.splat(0.0)); R];
            for (index, input) in inputs.iter_mut().enumerate() {
                let at = place + stride * (block + blocks * index);
                *input = (v.load(&re[at]), v.load(&im[at]));
            }
            let outputs = B::apply(v, inputs);
            for index in 0..R {
                let at = place + stride * (R * block + index);
                let output = match index {
                    0 => outputs[0],
                    _ => times(v, outputs[index], twiddles[index - 1]),
                };
                v.store(output.0, &mut to_re[at]);
                v.store(output.1, &mut to_im[at]);
            }
        }
    }
}

/// A stage of any radix, by the definition.
#[inline(always)]
fn any_radix<V: Vector>(
    v: V,
    stage: &Stage,
    (re, im): (&[Lane], &[Lane]),
    (to_re, to_im): (&mut [Lane], &mut [Lane]),
) {
    let (radix, blocks, stride) = (stage.radix, stage.blocks, stage.stride);
    for block in 0..blocks {
        for place in 0..stride {
            let mut inputs = [(v.splat(0.0), v.splat(0.0)); MOST_RADIX];
            for (index, input) in inputs.iter_mut().enumerate().take(radix) {
                let at = place + stride * (block + blocks * index);
                *input = (v.load(&re[at]), v.load(&im[at]));
            }
            for output in 0..radix {
                let mut sum = inputs[0];
                for (index, input) in inputs.iter().enumerate().take(radix).skip(1) {
                    sum = plus(v, sum, times(v, *input, stage.roots[index * output % radix]));
                }
                if output > 0 {
                    sum = times(v, sum, stage.twiddles[block * (radix - 1) + output - 1]);
                }
                let at = place + stride * (radix * block + output);
                v.store(sum.0, &mut to_re[at]);
                v.store(sum.1, &mut to_im[at]);
            }
        }
    }
}

#[inline(always)]
pub(super) fn times<V: Vector>(v: V, (re, im): Pair<V>, [cosine, sine]: [f32; 2]) -> Pair<V> {
    let (cosine, sine) = (v.splat(cosine), v.splat(sine));
    (v.sub(v.mul(re, cosine), v.mul(im, sine)), v.mul_add(re, sine, v.mul(im, cosine)))
}

#[inline(always)]
fn plus<V: Vector>(v: V, a: Pair<V>, b: Pair<V>) -> Pair<V> {
    (v.add(a.0, b.0), v.add(a.1, b.1))
}

#[inline(always)]
fn minus<V: Vector>(v: V, a: Pair<V>, b: Pair<V>) -> Pair<V> {
    (v.sub(a.0, b.0), v.sub(a.1, b.1))
}

/// a + factor b.
#[inline(always)]
fn add_scaled<V: Vector>(v: V, a: Pair<V>, factor: f32, b: Pair<V>) -> Pair<V> {
    let factor = v.splat(factor);
    (v.mul_add(factor, b.0, a.0), v.mul_add(factor, b.1, a.1))
}

/// -i times the number.
#[inline(always)]
fn turned<V: Vector>(v: V, a: Pair<V>) -> Pair<V> {
    (a.1, v.sub(v.splat(0.0), a.0))
}

struct Radix2;

impl Butterfly<2> for Radix2 {
    #[inline(always)]
    fn apply<V: Vector>(v: V, [a, b]: [Pair<V>; 2]) -> [Pair<V>; 2] {
        [plus(v, a, b), minus(v, a, b)]
    }
}

struct Radix3;

impl Butterfly<3> for Radix3 {
    #[inline(always)]
    fn apply<V: Vector>(v: V, [a, b, c]: [Pair<V>; 3]) -> [Pair<V>; 3] {
        let (sum, difference) = (plus(v, b, c), minus(v, b, c));
        let middle = add_scaled(v, a, -0.5, sum);
        let side = turned(v, difference);
        let sine = 0.866_025_4;
        [plus(v, a, sum), add_scaled(v, middle, sine, side), add_scaled(v, middle, -sine, side)]
    }
}

struct Radix4;

impl Butterfly<4> for Radix4 {
    #[inline(always)]
    fn apply<V: Vector>(v: V, [a, b, c, d]: [Pair<V>; 4]) -> [Pair<V>; 4] {
        let (even, odd) = (plus(v, a, c), plus(v, b, d));
        let (left, right) = (minus(v, a, c), turned(v, minus(v, b, d)));
        [plus(v, even, odd), plus(v, left, right), minus(v, even, odd), minus(v, left, right)]
    }
}

struct Radix5;

impl Butterfly<5> for Radix5 {
    #[inline(always)]
    fn apply<V: Vector>(v: V, [a, b, c, d, e]: [Pair<V>; 5]) -> [Pair<V>; 5] {
        // Cosines and sines of 72 and 144 degrees.
        let (cosine_1, cosine_2) = (0.309_017, -0.809_017);
        let (sine_1, sine_2) = (0.951_056_5, 0.587_785_24);
        let (outer, inner) = (plus(v, b, e), plus(v, c, d));
        let (outer_side, inner_side) = (turned(v, minus(v, b, e)), turned(v, minus(v, c, d)));
        let first = add_scaled(v, add_scaled(v, a, cosine_1, outer), cosine_2, inner);
        let second = add_scaled(v, add_scaled(v, a, cosine_2, outer), cosine_1, inner);
        let zero = (v.splat(0.0), v.splat(0.0));
        let first_side = add_scaled(v, add_scaled(v, zero, sine_1, outer_side), sine_2, inner_side);
        let second_side =
            add_scaled(v, add_scaled(v, zero, sine_2, outer_side), -sine_1, inner_side);
        [
            plus(v, a, plus(v, outer, inner)),
            plus(v, first, first_side),
            plus(v, second, second_side),
            minus(v, second, second_side),
            minus(v, first, first_side),
        ]
    }
}
