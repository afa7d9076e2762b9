//! The outer product mean: from an alignment to the update of pairs.

use super::block::{BLOCK, Operand, PART, PackedWeights, WEIGHTS, layer_shape, load, store};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::gemm::{Epilogue, Matrix, linear, matmul};
use crate::ops::split::{AllFinite, pack_column_panel, pack_row_panel, pack_rows};
use crate::simd::{
    Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

const OPERATION: &str = "outer_product_mean";
/// Residues of a panel of 32 rows or columns, each of [`LANES`] channels.
const PANEL_RESIDUES: usize = SPLIT_SIDE / LANES;

thread_local! {
    /// The packed channels of second residues.
    static COLUMNS: RefCell<AlignedBuffer> = RefCell::default();
}

/// Extents of [`outer_product_mean`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OuterShape {
    /// Over which products are averaged.
    pub sequences: usize,
    /// Of a sequence.
    pub residues: usize,
    /// Of either factor.
    pub inner: usize,
    /// Of a pair.
    pub channels: usize,
}

/// Writes pairs + weights vec(mean of left[s, i] right[s, j]^T) for all pairs (i, j) of residues.
///
/// `left` and `right` are [sequences, residues, inner], the weights (channels, inner^2), pairs and `out`
/// [residues, residues, channels].
#[allow(clippy::too_many_arguments)] // Two factors, weights, pairs and their sum.
pub fn outer_product_mean(
    context: Context,
    shape: OuterShape,
    left: &[f32],
    right: &[f32],
    weights: &[f32],
    pairs: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let OuterShape { sequences, residues, inner, channels } = shape;
    check_value(OPERATION, "sequences", sequences > 0, "at least 1", sequences)?;
    check_value(OPERATION, "inner", inner > 0, "at least 1", inner)?;
    check_length(OPERATION, "left", left.len(), &[sequences, residues, inner])?;
    check_length(OPERATION, "right", right.len(), &[sequences, residues, inner])?;
    check_length(OPERATION, "weights", weights.len(), &[channels, inner, inner])?;
    check_length(OPERATION, "pairs", pairs.len(), &[residues, residues, channels])?;
    check_length(OPERATION, "out", out.len(), &[residues, residues, channels])?;
    let outer = Outer { shape, left, right, weights, pairs };
    match context.level.amx() {
        Some(amx) if inner == LANES && outer.tiled(context, amx, out) => Ok(()),
        _ => outer.composed(context, out),
    }
}

#[derive(Clone, Copy)]
struct Outer<'a> {
    shape: OuterShape,
    left: &'a [f32],
    right: &'a [f32],
    weights: &'a [f32],
    pairs: &'a [f32],
}

impl<'a> Outer<'a> {
    /// Channels of residues as rows, over sequences.
    fn rows(&self) -> Matrix<'a> {
        let width = self.shape.residues * self.shape.inner;
        Matrix::new(self.left, self.shape.sequences, width).transposed()
    }

    /// Channels of residues as columns.
    fn columns(&self) -> Matrix<'a> {
        Matrix::new(self.right, self.shape.sequences, self.shape.residues * self.shape.inner)
    }

    /// Returns false where a number is not finite, and the result is not to be used.
    ///
    /// A tile of sums is sixteen channels of a residue by sixteen of another: the row of a pair.
    fn tiled(&self, context: Context, amx: Amx, out: &mut [f32]) -> bool {
        let OuterShape { sequences, residues, inner, .. } = self.shape;
        let finite = AllFinite::default();
        let out = DisjointSlice::new(out);
        let (steps, panels) = (sequences.div_ceil(TILE_K), residues.div_ceil(PANEL_RESIDUES));
        let offsets = StepOffsets::adjacent(steps);
        WEIGHTS.with_borrow_mut(|[weights, _]| {
            COLUMNS.with_borrow_mut(|columns| {
                let weights = PackedWeights::new(
                    context,
                    amx,
                    &finite,
                    self.weights,
                    inner * inner,
                    Operand::Right,
                    weights,
                );
                let columns = columns.split_steps(panels * steps);
                {
                    let packed = DisjointSlice::new(&mut *columns);
                    context.threads.parallel_for(panels, 4, &|range| {
                        for panel in range {
                            // SAFETY: panels do not overlap.
                            let out =
                                unsafe { packed.slice_mut(panel * steps..(panel + 1) * steps) };
                            finite.note(amx.run(PackPanel { amx, b: self.columns(), panel, out }));
                        }
                    });
                }
                context.threads.run(panels, &|panel| {
                    BLOCK.with_borrow_mut(|buffers| {
                        finite.note(amx.run(Block {
                            amx,
                            outer: *self,
                            weights: &weights,
                            columns,
                            offsets: &offsets,
                            first: panel * PANEL_RESIDUES,
                            out: &out,
                            buffers,
                        }));
                    });
                });
            });
        });
        finite.get()
    }

    /// The same by other operations: all products of one residue at a time.
    fn composed(&self, context: Context, out: &mut [f32]) -> Result<()> {
        let OuterShape { sequences, residues, inner, channels } = self.shape;
        let share = 1.0 / sequences as f32;
        let width = residues * inner;
        PART.with_borrow_mut(|[products, rows, ..]| {
            for first in 0..residues {
                let own = Matrix { data: &self.left[first * inner..], rows: inner, ..self.rows() };
                products.resize(inner * width, 0.0);
                matmul(context, own, self.columns(), products)?;
                rows.clear();
                for second in 0..residues {
                    for line in products.chunks_exact(width) {
                        let line = &line[second * inner..(second + 1) * inner];
                        rows.extend(line.iter().map(|value| value * share));
                    }
                }
                let range = first * residues * channels..(first + 1) * residues * channels;
                let residual = Some(&self.pairs[range.clone()]);
                let epilogue = Epilogue { residual, ..Epilogue::default() };
                let layer = layer_shape(residues, self.weights, inner * inner);
                linear(context, rows, self.weights, layer, epilogue, false, &mut out[range])?;
            }
            Ok(())
        })
    }
}

struct PackPanel<'a> {
    amx: Amx,
    b: Matrix<'a>,
    panel: usize,
    out: &'a mut [SplitStep],
}

impl Kernel for PackPanel<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        pack_column_panel(v, self.amx, &self.b, self.panel * SPLIT_SIDE, self.out)
    }
}

/// Two residues with all others.
struct Block<'a> {
    amx: Amx,
    outer: Outer<'a>,
    weights: &'a PackedWeights<'a>,
    columns: &'a [SplitStep],
    offsets: &'a StepOffsets,
    first: usize,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Block<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let [transposed, packed, products, packed_products] = self.buffers;
        let OuterShape { sequences, residues, channels, .. } = self.outer.shape;
        let (steps, width) = (self.offsets.count(), LANES * LANES);
        let share = 1.0 / sequences as f32;
        let packed = packed.split_steps(steps);
        let products = products.floats(PANEL_RESIDUES * SPLIT_SIDE * width);
        let packed_products = packed_products.split_steps(width.div_ceil(TILE_K));
        let rows = self.outer.rows();
        let start = self.first * LANES;
        let mut finite = pack_row_panel(v, self.amx, &rows, start, transposed, packed);
        let session = self.amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let owned = PANEL_RESIDUES.min(residues - self.first);
        let block_steps = SPLIT_SIDE / PANEL_RESIDUES * steps;
        for (block, columns) in self.columns.chunks(block_steps).enumerate() {
            let second = block * SPLIT_SIDE;
            for (panel, columns) in columns.chunks_exact(steps).enumerate() {
                let columns = SplitColumns::packed(columns, self.offsets);
                session.multiply_split(packed, columns, &mut sums);
                for (tile, sums) in sums.iter().enumerate() {
                    let (own, other) = (tile / PANEL_RESIDUES, tile % PANEL_RESIDUES);
                    let row = own * SPLIT_SIDE + panel * PANEL_RESIDUES + other;
                    let out = &mut products[row * width..(row + 1) * width];
                    for (line, out) in sums.0.iter().zip(out.as_chunks_mut().0) {
                        v.store(v.load(line), out);
                    }
                }
            }
            let count = SPLIT_SIDE.min(residues - second);
            for own in 0..owned {
                let row = |row: usize| {
                    let row = own * SPLIT_SIDE + row;
                    &products[row * width..(row + 1) * width]
                };
                finite &= pack_rows(v, self.amx, count, share, row, packed_products);
                let place = (self.first + own) * residues + second;
                let pairs = self.outer.pairs;
                self.weights.multiply(
                    v,
                    &session,
                    packed_products,
                    count,
                    |row, outputs, value| {
                        let start = (place + row) * channels;
                        let range = start + outputs.start..start + outputs.end;
                        let sum = v.add(value, load(v, &pairs[range.clone()]));
                        // SAFETY: blocks do not share pairs.
                        store(v, sum, unsafe { self.out.slice_mut(range) });
                    },
                );
            }
        }
        finite
    }
}
