//! Activations as signed bytes, for products with quantised weights.

use crate::error::{Result, check_length, check_value};
use crate::ops::Context;
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::Disjoint;

/// Values that share a scale.
pub(crate) const GROUP: usize = 32;
/// Values whose sum is kept, for weights that count from an offset.
pub(crate) const SUMMED: usize = 16;

/// Rows of activations as bytes: value = scale of its 32 x byte.
///
/// Kept from call to call, so that quantising allocates only when rows grow.
#[derive(Clone, Default, Debug)]
pub struct Activations {
    rows: usize,
    depth: usize,
    values: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i32>,
}

/// One row as the kernels read it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub values: &'a [[i8; 4]],
    pub scales: &'a [f32],
    /// Sums of 16 bytes.
    pub sums: &'a [[i32; 2]],
}

impl Activations {
    /// No rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values in a row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Takes over `rows` rows of `depth` values, each within half a step of its scale.
    ///
    /// A value that is not finite makes its group not a number, so that it shows in every result.
    pub fn quantise(
        &mut self,
        context: Context,
        values: &[f32],
        rows: usize,
        depth: usize,
    ) -> Result<()> {
        let operation = "quantise activations";
        check_length(operation, "values", values.len(), &[rows, depth])?;
        check_value(
            operation,
            "depth",
            depth.is_multiple_of(GROUP),
            format_args!("a multiple of {GROUP}"),
            depth,
        )?;
        (self.rows, self.depth) = (rows, depth);
        self.values.resize(values.len(), 0);
        self.scales.resize(values.len() / GROUP, 0.0);
        self.sums.resize(values.len() / SUMMED, 0);
        let (bytes, scales, sums) = (
            Disjoint::new(&mut self.values),
            Disjoint::new(&mut self.scales),
            Disjoint::new(&mut self.sums),
        );
        // A thread is worth waking for some ten thousand values.
        context
            .threads
            .ranges(values.len() / GROUP, 512, &|groups| {
                let (start, end) = (groups.start * GROUP, groups.end * GROUP);
                // SAFETY: ranges of groups do not overlap.
                let (bytes, scales, sums) = unsafe {
                    (
                        bytes.part(start..end),
                        scales.part(groups),
                        sums.part(start / SUMMED..end / SUMMED),
                    )
                };
                context.level.run(Quantise {
                    values: &values[start..end],
                    bytes,
                    scales,
                    sums,
                });
            });
        Ok(())
    }

    pub(crate) fn row(&self, row: usize) -> Row<'_> {
        let groups = self.depth / GROUP;
        let sums = &self.sums[row * 2 * groups..(row + 1) * 2 * groups];
        Row {
            values: self.values[row * self.depth..(row + 1) * self.depth]
                .as_chunks()
                .0,
            scales: &self.scales[row * groups..(row + 1) * groups],
            sums: sums.as_chunks().0,
        }
    }
}

struct Quantise<'a> {
    values: &'a [f32],
    bytes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
}

impl Kernel for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let groups = self.values.as_chunks::<GROUP>().0;
        let bytes = self.bytes.as_chunks_mut::<GROUP>().0;
        let sums = self.sums.as_chunks_mut::<2>().0;
        let outputs = bytes.iter_mut().zip(self.scales.iter_mut()).zip(sums);
        for (values, ((bytes, scale), sums)) in groups.iter().zip(outputs) {
            let halves = values.as_chunks::<LANES>().0;
            let (low, high) = (v.load(&halves[0]), v.load(&halves[1]));
            let zero = v.splat(0.0);
            let beyond = v.max(v.max(low, v.sub(zero, low)), v.max(high, v.sub(zero, high)));
            let largest = v.maximum(beyond);
            let poison = v.sum(v.mul_add(low, zero, v.mul(high, zero)));
            let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            *scale = largest / 127.0 + poison;
            for (half, x) in [low, high].into_iter().enumerate() {
                let mut codes = [0; LANES];
                v.store_i(v.round(v.mul(x, v.splat(factor))), &mut codes);
                let mut sum = 0_i32;
                for (byte, code) in bytes[half * LANES..].iter_mut().zip(codes) {
                    // Within -127 and 127, unless the scale is not a number and it is all the same.
                    *byte = code as i8;
                    sum += i32::from(*byte);
                }
                sums[half] = sum;
            }
        }
    }
}
