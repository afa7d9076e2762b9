//! The end of triangle multiplication: from sums channel by channel to the update of pairs.

use super::block::{
    BLOCK, BLOCK_ROWS, Operand, PART, PackedWeights, WEIGHTS, for_blocks, layer_shape, load, parts,
    store,
};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::gemm::{Epilogue, linear};
use crate::ops::norm::{LayerNorm, Norm, layer_norm};
use crate::ops::split::{AllFinite, pack_rows};
use crate::ops::transposing::transpose;
use crate::simd::{Amx, Kernel, SPLIT_SIDE, TILE_K, Vector, logistic};
use crate::threads::DisjointSlice;
use assay_operations::Activation;
use std::ops::Range;

const OPERATION: &str = "triangle_update";

/// Extents of [`triangle_update`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TriangleShape {
    /// Samples.
    pub batch: usize,
    /// Pairs of a sample.
    pub places: usize,
    /// Channels of sums.
    pub hidden: usize,
    /// Channels of pairs.
    pub channels: usize,
}

/// What turns sums into updates.
#[derive(Clone, Copy, Debug)]
pub struct TriangleUpdate<'a> {
    /// Of the sums of a pair.
    pub sum_norm: LayerNorm<'a>,
    /// Of a pair, before its gates.
    pub pair_norm: LayerNorm<'a>,
    /// (hidden, channels).
    pub gates: &'a [f32],
    /// (channels, hidden).
    pub weights: &'a [f32],
    /// Whether pairs are added to their updates.
    pub residual: bool,
}

/// Writes weights (norm(sums) sigmoid(gates norm(pairs))) of each pair; sums are [batch, hidden, places], pairs and
/// `out` [batch, places, channels].
pub fn triangle_update(
    context: Context,
    shape: TriangleShape,
    update: TriangleUpdate,
    sums: &[f32],
    pairs: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let TriangleShape { batch, places, hidden, channels } = shape;
    check_value(OPERATION, "hidden", hidden > 0, "at least 1", hidden)?;
    check_value(OPERATION, "channels", channels > 0, "at least 1", channels)?;
    check_length(OPERATION, "sum_norm", update.sum_norm.weight.len(), &[hidden])?;
    check_length(OPERATION, "pair_norm", update.pair_norm.weight.len(), &[channels])?;
    check_length(OPERATION, "gates", update.gates.len(), &[hidden, channels])?;
    check_length(OPERATION, "weights", update.weights.len(), &[channels, hidden])?;
    check_length(OPERATION, "sums", sums.len(), &[batch, hidden, places])?;
    check_length(OPERATION, "pairs", pairs.len(), &[batch, places, channels])?;
    check_length(OPERATION, "out", out.len(), &[batch, places, channels])?;
    let norms =
        [Norm::layer(OPERATION, update.sum_norm)?, Norm::layer(OPERATION, update.pair_norm)?];
    if let Some(amx) = context.level.amx()
        && tiled(context, amx, shape, norms, update, sums, pairs, out)
    {
        return Ok(());
    }
    composed(context, shape, update, sums, pairs, out)
}

/// Returns false where a number is not finite, and the result is not to be used.
#[allow(clippy::too_many_arguments)] // Those of the operation, and how it is done.
fn tiled(
    context: Context,
    amx: Amx,
    shape: TriangleShape,
    norms: [Norm; 2],
    update: TriangleUpdate,
    sums: &[f32],
    pairs: &[f32],
    out: &mut [f32],
) -> bool {
    let TriangleShape { batch, places, hidden, channels } = shape;
    let finite = AllFinite::default();
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[gates, weights]| {
        let pack = |matrix, inputs, buffer| {
            PackedWeights::new(context, amx, &finite, matrix, inputs, Operand::Right, buffer)
        };
        let gates = pack(update.gates, channels, gates);
        let weights = pack(update.weights, hidden, weights);
        for_blocks(context, batch, places, &|sample, range| {
            BLOCK.with_borrow_mut(|buffers| {
                finite.note(amx.run(Block {
                    amx,
                    shape,
                    norms,
                    gates: &gates,
                    weights: &weights,
                    residual: update.residual,
                    sums: &sums[sample * hidden * places..(sample + 1) * hidden * places],
                    pairs,
                    sample,
                    places: range,
                    out: &out,
                    buffers,
                }));
            });
        });
    });
    finite.get()
}

/// Some pairs of a sample.
struct Block<'a> {
    amx: Amx,
    shape: TriangleShape,
    norms: [Norm<'a>; 2],
    gates: &'a PackedWeights<'a>,
    weights: &'a PackedWeights<'a>,
    residual: bool,
    /// Of the sample.
    sums: &'a [f32],
    pairs: &'a [f32],
    sample: usize,
    places: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Block<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let [by_place, normed, packed_pairs, packed] = self.buffers;
        let TriangleShape { places: all, hidden, channels, .. } = self.shape;
        let [sum_norm, pair_norm] = self.norms;
        let first = self.sample * all + self.places.start;
        let by_place = by_place.floats(BLOCK_ROWS * hidden);
        let (normed_sums, normed_pairs) =
            normed.floats(SPLIT_SIDE * (hidden + channels)).split_at_mut(SPLIT_SIDE * hidden);
        let packed_pairs = packed_pairs.split_steps(channels.div_ceil(TILE_K));
        let packed = packed.split_steps(hidden.div_ceil(TILE_K));
        let mut finite = true;
        let sums = &self.sums[self.places.start..];
        transpose(v, sums, all, hidden, self.places.len(), by_place);
        let session = self.amx.session();
        for panel in (0..self.places.len()).step_by(SPLIT_SIDE) {
            let count = SPLIT_SIDE.min(self.places.len() - panel);
            for row in 0..count {
                let sums = &by_place[(panel + row) * hidden..][..hidden];
                sum_norm.row(v, sums, &mut normed_sums[row * hidden..][..hidden]);
                let pair = &self.pairs[(first + panel + row) * channels..][..channels];
                pair_norm.row(v, pair, &mut normed_pairs[row * channels..][..channels]);
            }
            let row = |row: usize| &normed_pairs[row * channels..(row + 1) * channels];
            finite &= pack_rows(v, self.amx, count, 1.0, row, packed_pairs);
            self.gates.multiply(v, &session, packed_pairs, count, |row, outputs, gate| {
                let sums = &mut normed_sums[row * hidden + outputs.start..][..outputs.len()];
                store(v, v.mul(load(v, sums), logistic(v, gate)), sums);
            });
            let row = |row: usize| &normed_sums[row * hidden..(row + 1) * hidden];
            finite &= pack_rows(v, self.amx, count, 1.0, row, packed);
            self.weights.multiply(v, &session, packed, count, |row, outputs, mut value| {
                let start = (first + panel + row) * channels;
                let range = start + outputs.start..start + outputs.end;
                if self.residual {
                    value = v.add(value, load(v, &self.pairs[range.clone()]));
                }
                // SAFETY: blocks do not share rows.
                store(v, value, unsafe { self.out.slice_mut(range) });
            });
        }
        finite
    }
}

/// The same by other operations.
fn composed(
    context: Context,
    shape: TriangleShape,
    update: TriangleUpdate,
    sums: &[f32],
    pairs: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let TriangleShape { batch, places: all, hidden, channels } = shape;
    let (sum_norm, pair_norm) = (update.sum_norm, update.pair_norm);
    PART.with_borrow_mut(|[rows, normed, normed_pairs, gates]| {
        for (sample, places) in
            (0..batch).flat_map(|sample| parts(all).map(move |places| (sample, places)))
        {
            let count = places.len();
            let range =
                (sample * all + places.start) * channels..(sample * all + places.end) * channels;
            let sums = &sums[sample * hidden * all..];
            rows.clear();
            for place in places {
                rows.extend((0..hidden).map(|channel| sums[channel * all + place]));
            }
            normed.resize(rows.len(), 0.0);
            let (weight, bias) = (sum_norm.weight, Some(sum_norm.bias));
            layer_norm(context, rows, weight, bias, sum_norm.epsilon, normed)?;
            normed_pairs.resize(count * channels, 0.0);
            let (weight, bias) = (pair_norm.weight, Some(pair_norm.bias));
            let pairs = &pairs[range.clone()];
            layer_norm(context, pairs, weight, bias, pair_norm.epsilon, normed_pairs)?;
            gates.resize(count * hidden, 0.0);
            let layer = layer_shape(count, update.gates, channels);
            let sigmoid = Epilogue { activation: Activation::Sigmoid, ..Epilogue::default() };
            linear(context, normed_pairs, update.gates, layer, sigmoid, false, gates)?;
            for (normed, gate) in normed.iter_mut().zip(&*gates) {
                *normed *= gate;
            }
            let layer = layer_shape(count, update.weights, hidden);
            let residual = update.residual.then_some(pairs);
            let epilogue = Epilogue { residual, ..Epilogue::default() };
            linear(context, normed, update.weights, layer, epilogue, false, &mut out[range])?;
        }
        Ok(())
    })
}
