//! Element types of dense operands, and loads of them as `f32` vectors.

use crate::context::Context;
use crate::simd::{self, Kernel, LANES, Vector};
use crate::threads::DisjointSlice;

/// The bits of a bfloat16.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl From<f32> for Bf16 {
    fn from(value: f32) -> Self {
        Bf16(crate::half_precision::f32_to_bf16(value))
    }
}

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> Self {
        crate::half_precision::bf16_to_f32(value.0)
    }
}

/// The bits of an IEEE half-precision number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct F16(pub u16);

impl From<f32> for F16 {
    fn from(value: f32) -> Self {
        F16(crate::half_precision::f32_to_f16(value))
    }
}

impl From<F16> for f32 {
    fn from(value: F16) -> Self {
        crate::half_precision::f16_to_f32(value.0)
    }
}

/// An element type that loads as a vector of `f32`.
pub(crate) trait Load:
    Copy + Default + Into<f32> + From<f32> + Send + Sync + 'static
{
    fn load<V: Vector>(v: V, from: &[Self; LANES]) -> V::F;
    /// The elements, if they are in single precision.
    fn as_floats(_elements: &[Self]) -> Option<&[f32]> {
        None
    }
    /// The bits, if the elements are bfloat16.
    fn as_bf16_bits(_elements: &[Self]) -> Option<&[u16]> {
        None
    }
}

impl Load for f32 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[f32; LANES]) -> V::F {
        v.load(from)
    }
    fn as_floats(elements: &[f32]) -> Option<&[f32]> {
        Some(elements)
    }
}

impl Load for Bf16 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[Bf16; LANES]) -> V::F {
        let mut bits = [0; LANES];
        for (bits, value) in bits.iter_mut().zip(from) {
            *bits = value.0;
        }
        v.load_bf16(&bits)
    }
    fn as_bf16_bits(elements: &[Bf16]) -> Option<&[u16]> {
        // SAFETY: the type is transparent.
        Some(unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) })
    }
}

impl Load for F16 {
    #[inline(always)]
    fn load<V: Vector>(v: V, from: &[F16; LANES]) -> V::F {
        let mut bits = [0; LANES];
        for (bits, value) in bits.iter_mut().zip(from) {
            *bits = value.0;
        }
        v.load_f16(&bits)
    }
}

/// Writes `f32` values as another element type, rounded to nearest.
pub(crate) fn convert_from_f32<T: Load>(context: Context, values: &[f32], out: &mut [T]) {
    let out = DisjointSlice::new(out);
    context.threads.parallel_for(values.len(), 16_384, &|range| {
        context.level.run(ConvertFromF32 {
            values: &values[range.clone()],
            // SAFETY: ranges do not overlap.
            out: unsafe { out.slice_mut(range) },
        });
    });
}

struct ConvertFromF32<'a, T> {
    values: &'a [f32],
    out: &'a mut [T],
}

impl<T: Load> Kernel for ConvertFromF32<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        for (out, value) in self.out.iter_mut().zip(self.values) {
            *out = T::from(*value);
        }
    }
}

/// The dot product of a row of any element type with one of `f32`, in four independent chains.
#[inline(always)]
pub(crate) fn dot<V: Vector, T: Load>(v: V, a: &[T], b: &[f32]) -> f32 {
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
        let (a, b) = (load_partial(v, a_tail), simd::load_partial(v, b_tail, 0.0));
        sums[1] = v.mul_add(a, b, sums[1]);
    }
    let (left, right) = (v.add(sums[0], sums[1]), v.add(sums[2], sums[3]));
    v.sum(v.add(left, right))
}

/// Loads a slice of at most sixteen elements; the other lanes are zero.
#[inline(always)]
pub(crate) fn load_partial<V: Vector, T: Load>(v: V, from: &[T]) -> V::F {
    let mut lanes = [T::default(); LANES];
    lanes[..from.len()].copy_from_slice(from);
    T::load(v, &lanes)
}
