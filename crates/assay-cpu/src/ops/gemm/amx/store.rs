//! Stores accumulator tiles to the output.

use super::operands::{BLOCK_SIDE, TileEpilogue};
use crate::simd::{LANES, TileC, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Where accumulators are stored.
pub(super) struct Store<'a> {
    pub columns: Range<usize>,
    /// Elements in a row of the output.
    pub outputs: usize,
    pub finish: TileEpilogue<'a>,
    pub out: &'a DisjointSlice<'a, f32>,
}

impl Store<'_> {
    /// Stores sixteen rows of these columns.
    #[inline(always)]
    pub fn rows<V: Vector>(&self, v: V, first: usize, left: &TileC, right: &TileC) {
        let start = |row: usize| row * self.outputs + self.columns.start;
        if self.columns.len() == BLOCK_SIDE {
            for row in 0..LANES {
                // The hardware prefetcher does not predict the lines of the next rows.
                self.out.prefetch(start(first + LANES + row));
                self.out.prefetch(start(first + LANES + row) + LANES);
                let start = start(first + row);
                // SAFETY: tasks do not share columns or rows.
                let out = unsafe { self.out.slice_mut(start..start + BLOCK_SIDE) };
                let out = out.as_chunks_mut::<LANES>().0;
                v.store(v.load(&left.0[row]), &mut out[0]);
                v.store(v.load(&right.0[row]), &mut out[1]);
            }
        } else {
            for row in 0..LANES {
                let start = start(first + row);
                // SAFETY: the same.
                let out = unsafe { self.out.slice_mut(start..start + self.columns.len()) };
                let sums = left.0[row].iter().chain(&right.0[row]);
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *sum);
            }
        }
        if self.finish.is_identity() {
            return;
        }
        for row in first..first + LANES {
            // SAFETY: the same.
            let out = unsafe { self.out.slice_mut(start(row)..start(row) + self.columns.len()) };
            self.apply(v, row * self.outputs, self.columns.clone(), out);
        }
    }

    /// Stores sixteen outputs of these rows.
    #[inline(always)]
    pub fn transposed<V: Vector>(&self, v: V, first: usize, left: &TileC, right: &TileC) {
        for (lane, row) in self.columns.clone().enumerate() {
            let start = row * self.outputs;
            // SAFETY: tasks do not share columns or rows.
            let out = unsafe { self.out.slice_mut(start + first..start + first + LANES) };
            let sums = if lane < LANES { left } else { right };
            for (out, sums) in out.iter_mut().zip(&sums.0) {
                *out = sums[lane % LANES];
            }
            self.apply(v, start, first..first + LANES, out);
        }
    }

    #[inline(always)]
    fn apply<V: Vector>(&self, v: V, start: usize, outputs: Range<usize>, out: &mut [f32]) {
        if let Some(scales) = self.finish.scales {
            let scales = &scales[outputs.clone()];
            out.iter_mut().zip(scales).for_each(|(out, scale)| *out *= scale);
        }
        self.finish.epilogue.apply(v, start, outputs, out);
    }
}
