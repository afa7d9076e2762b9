//! Small-M GEMM: activations are transposed so that sixteen rows fill the lanes of a vector, which is
//! multiplied by broadcast weights. Weights are not packed.

use super::epilogue::Epilogue;
use super::matrix::LinearShape;
use crate::context::Context;
use crate::ops::element::Load;
use crate::simd::{Kernel, LANES, Vector, prefetch};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Rows from which half-filled vectors beat GEMV.
pub(super) const MIN_ROWS: usize = 8;
/// Weights of each output that are converted to `f32` at a time.
const KC: usize = 256;

/// Transposes tiles of sixteen rows; missing rows are zeros.
pub(super) fn transpose(context: Context, x: &[f32], shape: LinearShape, transposed: &mut [f32]) {
    let (rows, inputs) = (shape.rows, shape.inputs);
    let pieces = inputs.div_ceil(KC);
    let out = DisjointSlice::new(transposed);
    let count = rows.div_ceil(LANES) * pieces;
    context.threads.parallel_for(count, 8, &|range| {
        for part in range {
            let (tile, first) = (part / pieces, part % pieces * KC);
            let depth = KC.min(inputs - first);
            let start = (tile * inputs + first) * LANES;
            // SAFETY: tasks have different inputs or rows.
            let out = unsafe { out.slice_mut(start..start + depth * LANES) };
            let lines = out.as_chunks_mut::<LANES>().0;
            for lane in 0..LANES {
                let row = tile * LANES + lane;
                let source = (row < rows).then(|| &x[row * inputs + first..][..depth]);
                for (index, line) in lines.iter_mut().enumerate() {
                    line[lane] = source.map_or(0.0, |source| source[index]);
                }
            }
        }
    });
}

/// A range of panels of sixteen outputs, for all rows.
pub(crate) struct SmallMGemm<'a, T> {
    pub(super) transposed: &'a [f32],
    pub(super) weights: &'a [T],
    pub(super) shape: LinearShape,
    pub(super) panels: Range<usize>,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) out: &'a DisjointSlice<'a, f32>,
}

/// Weights of sixteen outputs as `f32`. Aligned: vectors that cross cache lines take half as long again.
#[repr(align(64))]
struct WeightPanel([[f32; KC]; LANES]);
/// Sixteen outputs by sixteen rows, one row per lane.
type OutputTile = [[f32; LANES]; LANES];

impl<T: Load> Kernel for SmallMGemm<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let mut weight_panel = WeightPanel([[0.0; KC]; LANES]);
        for panel in self.panels.clone() {
            let columns = panel * LANES..self.shape.outputs.min((panel + 1) * LANES);
            for tile in 0..self.shape.rows.div_ceil(LANES) {
                let mut sums = [[0.0; LANES]; LANES];
                for first in (0..self.shape.inputs).step_by(KC) {
                    let depth = KC.min(self.shape.inputs - first);
                    self.load_weights(v, &columns, first, depth, &mut weight_panel);
                    let transposed = &self.transposed[(tile * self.shape.inputs + first) * LANES..];
                    let transposed = &transposed.as_chunks::<LANES>().0[..depth];
                    if V::HAS_32_REGISTERS {
                        multiply::<V, LANES>(v, transposed, &weight_panel.0, 0, &mut sums);
                    } else {
                        for output in (0..LANES).step_by(4) {
                            multiply::<V, 4>(v, transposed, &weight_panel.0, output, &mut sums);
                        }
                    }
                }
                self.store(v, tile, &columns, &sums);
            }
        }
    }
}

impl<T: Load> SmallMGemm<'_, T> {
    /// Loads the weights of these outputs; missing outputs keep stale values, which are never stored.
    #[inline(always)]
    fn load_weights<V: Vector>(
        &self,
        v: V,
        columns: &Range<usize>,
        first: usize,
        depth: usize,
        weight_panel: &mut WeightPanel,
    ) {
        for (column, weight_panel) in columns.clone().zip(&mut weight_panel.0) {
            let row = &self.weights[column * self.shape.inputs + first..][..depth];
            let (whole, rest) = row.as_chunks::<LANES>();
            for (lanes, weight_panel) in whole.iter().zip(weight_panel.as_chunks_mut::<LANES>().0) {
                // Rows are too far apart for the hardware prefetcher.
                prefetch(lanes.as_ptr().wrapping_add(KC));
                v.store(T::load(v, lanes), weight_panel);
            }
            for (value, weight_panel) in rest.iter().zip(&mut weight_panel[whole.len() * LANES..]) {
                *weight_panel = (*value).into();
            }
        }
    }

    #[inline(always)]
    fn store<V: Vector>(&self, v: V, tile: usize, columns: &Range<usize>, sums: &OutputTile) {
        let rows = tile * LANES..self.shape.rows.min((tile + 1) * LANES);
        for (lane, row) in rows.enumerate() {
            let start = row * self.shape.outputs;
            // SAFETY: ranges of panels do not share columns.
            let out = unsafe { self.out.slice_mut(start + columns.start..start + columns.end) };
            for (out, sums) in out.iter_mut().zip(sums) {
                *out = sums[lane];
            }
            self.epilogue.apply(v, start, columns.clone(), out);
        }
    }
}

/// Accumulates `OUTPUTS` outputs of sixteen rows.
#[inline(always)]
fn multiply<V: Vector, const OUTPUTS: usize>(
    v: V,
    transposed: &[[f32; LANES]],
    weight_panel: &[[f32; KC]; LANES],
    first: usize,
    tile: &mut OutputTile,
) {
    let mut sums = [v.splat(0.0); OUTPUTS];
    for output in 0..OUTPUTS {
        sums[output] = v.load(&tile[first + output]);
    }
    let depth = transposed.len().min(KC);
    for (index, rows) in transposed[..depth].iter().enumerate() {
        let rows = v.load(rows);
        for output in 0..OUTPUTS {
            let weight = v.splat(weight_panel[first + output][index]);
            sums[output] = v.mul_add(weight, rows, sums[output]);
        }
    }
    for output in 0..OUTPUTS {
        v.store(sums[output], &mut tile[first + output]);
    }
}
