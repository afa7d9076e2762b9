//! The number types that dense operations read.

use super::Context;
use super::{attention_prefill, attention_tile, linear, linear_many};
use crate::simd::{Kernel, LANES, Level, Vector};
use crate::threads::Disjoint;

/// The bits of a bfloat16.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl From<f32> for Bf16 {
    fn from(value: f32) -> Self {
        Bf16(crate::number::f32_to_bf16(value))
    }
}

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> Self {
        crate::number::bf16_to_f32(value.0)
    }
}

/// The bits of a number of half precision.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct F16(pub u16);

impl From<f32> for F16 {
    fn from(value: f32) -> Self {
        F16(crate::number::f32_to_f16(value))
    }
}

impl From<F16> for f32 {
    fn from(value: F16) -> Self {
        crate::number::f16_to_f32(value.0)
    }
}

/// Loads that only this crate knows.
///
/// The kernels are compiled here, once for each type, and not again by every crate that calls one.
pub(crate) trait Load: Sized {
    fn load<V: Vector>(v: V, from: &[Self; LANES]) -> V::F;
    /// The bits, if the numbers are bfloat16.
    fn bfloats(_numbers: &[Self]) -> Option<&[u16]> {
        None
    }
    fn linear(level: Level, product: linear::Product<Self>);
    fn linear_many(level: Level, product: linear_many::Product<Self>);
    fn prefill(level: Level, tile: attention_prefill::Tile<Self>);
    fn paged(level: Level, tile: attention_tile::Tile<Self>);
}

macro_rules! kernels {
    () => {
        fn linear(level: Level, product: linear::Product<Self>) {
            level.run(product);
        }
        fn linear_many(level: Level, product: linear_many::Product<Self>) {
            level.run(product);
        }
        fn prefill(level: Level, tile: attention_prefill::Tile<Self>) {
            level.run(tile);
        }
        fn paged(level: Level, tile: attention_tile::Tile<Self>) {
            level.run(tile);
        }
    };
}

/// A number type that dense operations read: `f32`, [`F16`] or [`Bf16`].
#[allow(private_bounds)]
pub trait Element: Copy + Default + Into<f32> + From<f32> + Send + Sync + Load + 'static {}

impl Load for f32 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[f32; LANES]) -> V::F {
        v.load(from)
    }
    kernels!();
}

impl Element for f32 {}

impl Load for Bf16 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[Bf16; LANES]) -> V::F {
        let mut bits = [0; LANES];
        for (bits, value) in bits.iter_mut().zip(from) {
            *bits = value.0;
        }
        v.load_bf16(&bits)
    }
    fn bfloats(numbers: &[Bf16]) -> Option<&[u16]> {
        // SAFETY: the type is transparent.
        Some(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) })
    }
    kernels!();
}

impl Element for Bf16 {}

impl Load for F16 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[F16; LANES]) -> V::F {
        let mut bits = [0; LANES];
        for (bits, value) in bits.iter_mut().zip(from) {
            *bits = value.0;
        }
        v.load_f16(&bits)
    }
    kernels!();
}

impl Element for F16 {}

/// Writes numbers in another type, each rounded to the nearest.
pub(crate) fn narrow<T: Element>(context: Context, values: &[f32], out: &mut [T]) {
    let out = Disjoint::new(out);
    context.threads.ranges(values.len(), 16_384, &|range| {
        context.level.run(Narrow {
            values: &values[range.clone()],
            // SAFETY: ranges do not overlap.
            out: unsafe { out.part(range) },
        });
    });
}

struct Narrow<'a, T> {
    values: &'a [f32],
    out: &'a mut [T],
}

impl<T: Element> Kernel for Narrow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        for (out, value) in self.out.iter_mut().zip(self.values) {
            *out = T::from(*value);
        }
    }
}

/// The sum of products of a row of any element with one of `f32`, in four chains.
#[inline(always)]
pub(crate) fn dot<V: Vector, T: Element>(v: V, a: &[T], b: &[f32]) -> f32 {
    let mut sums = [v.splat(0.0); 4];
    let (a_four, a_rest) = a.as_chunks::<{ 4 * LANES }>();
    let (b_four, b_rest) = b.as_chunks::<{ 4 * LANES }>();
    for (a, b) in a_four.iter().zip(b_four) {
        let (a, b) = (a.as_chunks::<LANES>().0, b.as_chunks::<LANES>().0);
        for chain in 0..4 {
            sums[chain] = v.mul_add(T::load(v, &a[chain]), v.load(&b[chain]), sums[chain]);
        }
    }
    let (a_one, a_tail) = a_rest.as_chunks::<LANES>();
    let (b_one, b_tail) = b_rest.as_chunks::<LANES>();
    for (a, b) in a_one.iter().zip(b_one) {
        sums[0] = v.mul_add(T::load(v, a), v.load(b), sums[0]);
    }
    if !a_tail.is_empty() {
        let (a, b) = (load_part(v, a_tail), crate::simd::load_part(v, b_tail, 0.0));
        sums[1] = v.mul_add(a, b, sums[1]);
    }
    let (left, right) = (v.add(sums[0], sums[1]), v.add(sums[2], sums[3]));
    v.sum(v.add(left, right))
}

/// The first lanes from a slice of at most sixteen, the others zero.
#[inline(always)]
pub(crate) fn load_part<V: Vector, T: Element>(v: V, from: &[T]) -> V::F {
    let mut lanes = [T::default(); LANES];
    lanes[..from.len()].copy_from_slice(from);
    T::load(v, &lanes)
}
