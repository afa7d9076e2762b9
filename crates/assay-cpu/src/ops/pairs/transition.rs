//! LayerNorm, two linear layers with an activation between them, and the residual.

use super::block::{BLOCK, Operand, PackedWeights, WEIGHTS, for_blocks, load, store};
use super::columns::{Lanes, gather, lanes, normalize, pack, scatter};
use super::product::{BLOCK_LANES, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::activation::{activate_in_place, check_elementwise};
use crate::ops::norm::{LayerNorm, Norm};
use crate::ops::split::{AllFinite, pack_rows};
use crate::simd::{Amx, Kernel, SPLIT_SIDE, TILE_K, Vector};
use crate::threads::DisjointSlice;
use assay_operations::Activation;
use std::ops::Range;

const OPERATION: &str = "transition";

/// The weights of [`transition`].
#[derive(Clone, Copy, Debug)]
pub struct Transition<'a> {
    /// Of every row.
    pub norm: LayerNorm<'a>,
    /// (hidden, width).
    pub first: &'a [f32],
    /// (width, hidden).
    pub second: &'a [f32],
    /// Between both layers.
    pub activation: Activation,
}

/// Writes x + second activation(first norm(x)) of every row.
pub fn transition(context: Context, weights: Transition, x: &[f32], out: &mut [f32]) -> Result<()> {
    let width = weights.norm.weight.len();
    check_value(OPERATION, "width", width > 0, "at least 1", width)?;
    let (rows, hidden) = (x.len() / width, weights.first.len() / width);
    check_value(OPERATION, "hidden", hidden > 0, "at least 1", hidden)?;
    check_length(OPERATION, "first", weights.first.len(), &[hidden, width])?;
    check_length(OPERATION, "second", weights.second.len(), &[width, hidden])?;
    check_length(OPERATION, "x", x.len(), &[rows, width])?;
    check_length(OPERATION, "out", out.len(), &[rows, width])?;
    check_elementwise(OPERATION, weights.activation)?;
    let norm = Norm::layer(OPERATION, weights.norm)?;
    if let Some(amx) = context.level.amx()
        && tiled(context, amx, norm, weights, x, out)
    {
        return Ok(());
    }
    in_columns(context, weights, x, out);
    Ok(())
}

/// Returns false where a number is not finite, and the result is not to be used.
fn tiled(
    context: Context,
    amx: Amx,
    norm: Norm,
    weights: Transition,
    x: &[f32],
    out: &mut [f32],
) -> bool {
    let width = weights.norm.weight.len();
    let (rows, hidden) = (x.len() / width, weights.first.len() / width);
    let finite = AllFinite::default();
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[first, second]| {
        let pack = |matrix, inputs, buffer| {
            PackedWeights::new(context, amx, &finite, matrix, inputs, Operand::Right, buffer)
        };
        let first = pack(weights.first, width, first);
        let second = pack(weights.second, hidden, second);
        for_blocks(context, 1, rows, &|_, rows| {
            BLOCK.with_borrow_mut(|buffers| {
                finite.note(amx.run(Block {
                    amx,
                    norm,
                    first: &first,
                    second: &second,
                    activation: weights.activation,
                    x,
                    rows,
                    out: &out,
                    buffers,
                }));
            });
        });
    });
    finite.get()
}

/// Some rows.
struct Block<'a> {
    amx: Amx,
    norm: Norm<'a>,
    first: &'a PackedWeights<'a>,
    second: &'a PackedWeights<'a>,
    activation: Activation,
    x: &'a [f32],
    rows: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Block<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let [normed, hidden, packed, packed_hidden] = self.buffers;
        let (width, wide) = (self.second.outputs, self.first.outputs);
        let normed = normed.floats(SPLIT_SIDE * width);
        let hidden = hidden.floats(SPLIT_SIDE * wide);
        let packed = packed.split_steps(width.div_ceil(TILE_K));
        let packed_hidden = packed_hidden.split_steps(wide.div_ceil(TILE_K));
        let mut finite = true;
        let session = self.amx.session();
        for first in self.rows.clone().step_by(SPLIT_SIDE) {
            let count = SPLIT_SIDE.min(self.rows.end - first);
            for (row, normed) in normed.chunks_exact_mut(width).take(count).enumerate() {
                self.norm.row(v, &self.x[(first + row) * width..][..width], normed);
            }
            let row = |row: usize| &normed[row * width..(row + 1) * width];
            finite &= pack_rows(v, self.amx, count, 1.0, row, packed);
            self.first.multiply(v, &session, packed, count, |row, outputs, value| {
                store(v, value, &mut hidden[row * wide + outputs.start..][..outputs.len()]);
            });
            activate_in_place(v, self.activation, &mut hidden[..count * wide]);
            let row = |row: usize| &hidden[row * wide..(row + 1) * wide];
            finite &= pack_rows(v, self.amx, count, 1.0, row, packed_hidden);
            self.second.multiply(v, &session, packed_hidden, count, |row, outputs, value| {
                let start = (first + row) * width;
                let range = start + outputs.start..start + outputs.end;
                let sum = v.add(value, load(v, &self.x[range.clone()]));
                // SAFETY: blocks do not share rows.
                store(v, sum, unsafe { self.out.slice_mut(range) });
            });
        }
        finite
    }
}

/// The same in single precision: rows are columns.
fn in_columns(context: Context, weights: Transition, x: &[f32], out: &mut [f32]) {
    let width = weights.norm.weight.len();
    let (rows, hidden) = (x.len() / width, weights.first.len() / width);
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[first, second]| {
        let first = pack(context, weights.first, width, first);
        let second = pack(context, weights.second, hidden, second);
        for_blocks(context, 1, rows, &|_, rows| {
            BLOCK.with_borrow_mut(|buffers| {
                let (hidden, out) = (hidden, &out);
                context.level.run(Columns {
                    weights,
                    hidden,
                    first,
                    second,
                    x,
                    rows,
                    out,
                    buffers,
                });
            });
        });
    });
}

/// Some rows, as columns.
struct Columns<'a> {
    weights: Transition<'a>,
    hidden: usize,
    first: &'a [Lanes],
    second: &'a [Lanes],
    x: &'a [f32],
    rows: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let [columns, hidden, updates, _] = self.buffers;
        let Transition { norm, activation, .. } = self.weights;
        let (width, wide) = (norm.weight.len(), self.hidden);
        let (columns, updates) = (lanes(columns, 2 * width), lanes(updates, 2 * width));
        let hidden = lanes(hidden, 2 * wide);
        for first in self.rows.clone().step_by(BLOCK_LANES) {
            let count = BLOCK_LANES.min(self.rows.end - first);
            gather(v, count, width, |row| &self.x[(first + row) * width..][..width], columns);
            normalize(v, norm, columns);
            let (left, right) = columns.split_at(width);
            multiply(v, self.first, [left, right], hidden.split_at_mut(wide).into());
            activate_in_place(v, activation, hidden.as_flattened_mut());
            let (left, right) = hidden.split_at(wide);
            multiply(v, self.second, [left, right], updates.split_at_mut(width).into());
            scatter(v, count, width, updates, |row, elements, update| {
                let start = (first + row) * width;
                let range = start + elements.start..start + elements.end;
                let sum = v.add(update, load(v, &self.x[range.clone()]));
                // SAFETY: blocks do not share rows.
                store(v, sum, unsafe { self.out.slice_mut(range) });
            });
        }
    }
}
