//! Activations quantized to int8 in groups of 32, for GEMM with quantized weights.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector};
use crate::threads::DisjointSlice;

/// Values per group, which share a scale.
pub(crate) const GROUP: usize = 32;
/// A group of 32 quantized activations.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Group {
    pub values: [[i8; 4]; GROUP / 4],
    pub scale: f32,
    /// Sums of the codes of the first and the last 16 values.
    pub sums: [i32; 2],
    /// The sum of all values, for weights with a minimum.
    pub total: f32,
}

/// Rows of activations as int8 codes: value = scale of its group x code.
///
/// Reused from call to call, so that quantizing allocates only when rows grow.
#[derive(Clone, Default, Debug)]
pub struct QuantizedActivations {
    rows: usize,
    depth: usize,
    groups: Vec<Group>,
}

impl QuantizedActivations {
    /// Without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Quantizes `rows` rows of `depth` values, rounded to nearest.
    ///
    /// A non-finite value makes its group NaN, which propagates to every output.
    pub fn quantize(
        &mut self,
        context: Context,
        values: &[f32],
        rows: usize,
        depth: usize,
    ) -> Result<()> {
        let operation = "quantize activations";
        check_length(operation, "values", values.len(), &[rows, depth])?;
        check_value(
            operation,
            "depth",
            depth.is_multiple_of(GROUP),
            format_args!("a multiple of {GROUP}"),
            depth,
        )?;
        (self.rows, self.depth) = (rows, depth);
        self.groups.resize(values.len() / GROUP, Group::default());
        let groups = DisjointSlice::new(&mut self.groups);
        // Ten thousand values amortize waking a thread.
        context.threads.parallel_for(values.len() / GROUP, 512, &|range| {
            context.level.run(Quantize {
                values: &values[range.start * GROUP..range.end * GROUP],
                // SAFETY: ranges of groups do not overlap.
                groups: unsafe { groups.slice_mut(range) },
            });
        });
        Ok(())
    }

    pub(crate) fn row(&self, row: usize) -> &[Group] {
        let length = self.depth / GROUP;
        &self.groups[row * length..(row + 1) * length]
    }
}

struct Quantize<'a> {
    values: &'a [f32],
    groups: &'a mut [Group],
}

impl Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let groups = self.groups.iter_mut();
        for (values, group) in self.values.as_chunks::<GROUP>().0.iter().zip(groups) {
            let halves = values.as_chunks::<LANES>().0;
            let (low, high) = (v.load(&halves[0]), v.load(&halves[1]));
            let zero = v.splat(0.0);
            let beyond = v.max(v.max(low, v.sub(zero, low)), v.max(high, v.sub(zero, high)));
            let largest = v.maximum(beyond);
            let poison = v.sum(v.mul_add(low, zero, v.mul(high, zero)));
            let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            group.scale = largest / 127.0 + poison;
            let bytes = group.values.as_flattened_mut().as_chunks_mut::<LANES>().0;
            for (half, x) in [low, high].into_iter().enumerate() {
                // Within -127..=127, unless the scale is NaN and the codes do not matter.
                let codes = v.round(v.mul(x, v.splat(factor)));
                v.store_i8(codes, &mut bytes[half]);
                group.sums[half] = v.sum(v.to_float(codes)).clamp(-4096.0, 4096.0) as i32;
            }
            group.total = group.scale * (group.sums[0] + group.sums[1]) as f32;
        }
    }
}
