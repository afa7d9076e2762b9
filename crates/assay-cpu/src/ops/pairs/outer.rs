//! The outer product mean: from an alignment to the update of pairs.

use super::block::{BLOCK, Operand, PackedWeights, WEIGHTS, load, store};
use super::columns::{Lanes, gather, lanes, pack, scatter};
use super::product::{BLOCK_LANES, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::gemm::Matrix;
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
    check_value(OPERATION, "channels", channels > 0, "at least 1", channels)?;
    check_length(OPERATION, "left", left.len(), &[sequences, residues, inner])?;
    check_length(OPERATION, "right", right.len(), &[sequences, residues, inner])?;
    check_length(OPERATION, "weights", weights.len(), &[channels, inner, inner])?;
    check_length(OPERATION, "pairs", pairs.len(), &[residues, residues, channels])?;
    check_length(OPERATION, "out", out.len(), &[residues, residues, channels])?;
    let outer = Outer { shape, left, right, weights, pairs };
    match context.level.amx() {
        Some(amx) if inner == LANES && outer.tiled(context, amx, out) => {}
        _ => outer.in_columns(context, out),
    }
    Ok(())
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

    /// The weights with the channels of the second residue first, as products of columns are.
    fn swapped_weights(&self) -> Vec<f32> {
        let inner = self.shape.inner;
        let rows = self.weights.chunks_exact(inner * inner);
        rows.flat_map(|row| (0..inner).flat_map(move |second| row[second..].iter().step_by(inner)))
            .copied()
            .collect()
    }

    /// The same in single precision: second residues are columns.
    fn in_columns(&self, context: Context, out: &mut [f32]) {
        let OuterShape { sequences, residues, inner, .. } = self.shape;
        let out = DisjointSlice::new(out);
        let blocks = residues.div_ceil(BLOCK_LANES);
        WEIGHTS.with_borrow_mut(|[weights, _]| {
            COLUMNS.with_borrow_mut(|columns| {
                let weights = pack(context, &self.swapped_weights(), inner * inner, weights);
                let columns = lanes(columns, 2 * blocks * inner * sequences);
                context.level.run(PackResidues { outer: *self, to: columns });
                context.threads.run(residues, &|first| {
                    BLOCK.with_borrow_mut(|buffers| {
                        let (outer, out) = (*self, &out);
                        context.level.run(Residue { outer, weights, columns, first, out, buffers });
                    });
                });
            });
        });
    }
}

/// The channels of second residues, as columns: [panel][channel][sequence].
struct PackResidues<'a> {
    outer: Outer<'a>,
    to: &'a mut [Lanes],
}

impl Kernel for PackResidues<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let OuterShape { sequences, residues, inner, .. } = self.outer.shape;
        let mut panel = vec![[0.0; LANES]; inner];
        for (index, to) in self.to.chunks_exact_mut(inner * sequences).enumerate() {
            let first = index * LANES;
            for sequence in 0..sequences {
                let row = |residue: usize| {
                    let place = sequence * residues + first + residue;
                    &self.outer.right[place * inner..(place + 1) * inner]
                };
                gather(v, residues.saturating_sub(first), inner, row, &mut panel);
                for (to, lanes) in to[sequence..].iter_mut().step_by(sequences).zip(&panel) {
                    *to = *lanes;
                }
            }
        }
    }
}

/// A residue with all others.
struct Residue<'a> {
    outer: Outer<'a>,
    weights: &'a [Lanes],
    columns: &'a [Lanes],
    first: usize,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Residue<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let [own, products, updates, _] = self.buffers;
        let OuterShape { sequences, residues, inner, channels } = self.outer.shape;
        let (width, share) = (inner * inner, v.splat(1.0 / sequences as f32));
        let own = lanes(own, inner.div_ceil(LANES) * sequences);
        for (panel, own) in own.chunks_exact_mut(sequences).enumerate() {
            let elements = panel * LANES..inner.min((panel + 1) * LANES);
            for (sequence, own) in own.iter_mut().enumerate() {
                let row = &self.outer.left[(sequence * residues + self.first) * inner..][..inner];
                v.store(v.mul(share, load(v, &row[elements.clone()])), own);
            }
        }
        let (products, updates) = (lanes(products, 2 * width), lanes(updates, 2 * channels));
        for (block, columns) in self.columns.chunks_exact(2 * inner * sequences).enumerate() {
            let second = block * BLOCK_LANES;
            let (left, right) = columns.split_at(inner * sequences);
            let columns = left.chunks_exact(sequences).zip(right.chunks_exact(sequences));
            let (to_left, to_right) = products.split_at_mut(width);
            let to = to_left.chunks_exact_mut(inner).zip(to_right.chunks_exact_mut(inner));
            for ((left, right), to) in columns.zip(to) {
                multiply(v, own, [left, right], to.into());
            }
            let (left, right) = products.split_at(width);
            multiply(v, self.weights, [left, right], updates.split_at_mut(channels).into());
            let pairs = self.outer.pairs;
            let count = BLOCK_LANES.min(residues - second);
            scatter(v, count, channels, updates, |row, elements, update| {
                let start = (self.first * residues + second + row) * channels;
                let range = start + elements.start..start + elements.end;
                let sum = v.add(update, load(v, &pairs[range.clone()]));
                // SAFETY: tasks do not share pairs.
                store(v, sum, unsafe { self.out.slice_mut(range) });
            });
        }
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
