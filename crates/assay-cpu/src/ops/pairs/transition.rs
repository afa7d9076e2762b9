//! LayerNorm, two linear layers with an activation between them, and the residual.

use super::block::{
    BLOCK, Operand, PART, PackedWeights, WEIGHTS, for_blocks, layer_shape, load, parts, store,
};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::activation::{activate_in_place, check_elementwise};
use crate::ops::gemm::{Epilogue, linear};
use crate::ops::norm::{LayerNorm, Norm, layer_norm};
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
    composed(context, weights, x, out)
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

/// The same by other operations.
fn composed(context: Context, weights: Transition, x: &[f32], out: &mut [f32]) -> Result<()> {
    let LayerNorm { weight, bias, epsilon } = weights.norm;
    let width = weight.len();
    PART.with_borrow_mut(|[normed, hidden, ..]| {
        for rows in parts(x.len() / width) {
            let range = rows.start * width..rows.end * width;
            let x = &x[range.clone()];
            normed.resize(x.len(), 0.0);
            layer_norm(context, x, weight, Some(bias), epsilon, normed)?;
            let layer = layer_shape(rows.len(), weights.first, width);
            hidden.resize(rows.len() * layer.outputs, 0.0);
            let epilogue = Epilogue { activation: weights.activation, ..Epilogue::default() };
            linear(context, normed, weights.first, layer, epilogue, false, hidden)?;
            let layer = layer_shape(rows.len(), weights.second, layer.outputs);
            let epilogue = Epilogue { residual: Some(x), ..Epilogue::default() };
            linear(context, hidden, weights.second, layer, epilogue, false, &mut out[range])?;
        }
        Ok(())
    })
}
