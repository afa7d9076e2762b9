//! Where the sums of a convolution go.

use crate::ops::activation::activate_in_place;
use crate::ops::gemm::Epilogue;
use crate::simd::{LANES, Vector};
use crate::threads::DisjointSlice;

/// Where the outputs of a row go.
pub(super) struct OutputRow {
    /// Column 0 of the group's first filter.
    pub first: usize,
    pub filter_stride: usize,
    /// Elements from one column to the next.
    pub step: usize,
}

/// The output rows of a group's filters.
pub(super) struct Outputs<'a> {
    /// Of a row.
    pub columns: usize,
    /// The group's first filter, of all.
    pub first_filter: usize,
    pub target: OutputRow,
    pub epilogue: Epilogue<'a>,
    pub out: &'a DisjointSlice<'a, f32>,
}

impl Outputs<'_> {
    /// Prefetches an output.
    #[inline(always)]
    pub fn prefetch(&self, filter: usize, column: usize) {
        let OutputRow { first, filter_stride, step } = self.target;
        self.out.prefetch(first + filter * filter_stride + column * step);
    }

    /// Stores adjacent columns of a filter with the epilogue applied, clipped to the output.
    #[inline(always)]
    pub fn store<V: Vector>(&self, v: V, filter: usize, column: usize, sums: &[V::F]) {
        let bias = self.epilogue.bias.map_or(0.0, |bias| bias[self.first_filter + filter]);
        let OutputRow { first, filter_stride, step } = self.target;
        let first = first + filter * filter_stride;
        for (vector, sum) in sums.iter().enumerate() {
            let column = column + vector * LANES;
            let count = self.columns.saturating_sub(column).min(LANES);
            if count == 0 {
                return;
            }
            let start = first + column * step;
            // SAFETY: tiles do not overlap, and neither do the columns of rows with a step.
            let out = unsafe { self.out.slice_mut(start..start + (count - 1) * step + 1) };
            let sum = v.add(*sum, v.splat(bias));
            if let (1, Some(out)) = (step, out.first_chunk_mut::<LANES>()) {
                v.store(sum, out);
                activate_in_place(v, self.epilogue.activation, out);
                if let Some(residual) = self.epilogue.residual
                    && let Some(residual) = residual[start..].first_chunk::<LANES>()
                {
                    v.store(v.add(v.load(out), v.load(residual)), out);
                }
                continue;
            }
            let mut lanes = [0.0; LANES];
            v.store(sum, &mut lanes);
            activate_in_place(v, self.epilogue.activation, &mut lanes);
            if let Some(residual) = self.epilogue.residual {
                for (lane, other) in lanes.iter_mut().zip(residual[start..].iter().step_by(step)) {
                    *lane += other;
                }
            }
            for (out, lane) in out.iter_mut().step_by(step).zip(lanes) {
                *out = lane;
            }
        }
    }
}
