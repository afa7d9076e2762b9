//! The end of triangle multiplication: from sums channel by channel to the update of pairs.

use super::block::{BLOCK, BLOCK_ROWS, Operand, PackedWeights, WEIGHTS, for_blocks, load, store};
use super::columns::{Lanes, gather, lanes, normalize, pack, scatter};
use super::product::{BLOCK_LANES, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::norm::{LayerNorm, Norm};
use crate::ops::split::{AllFinite, pack_rows};
use crate::ops::transposing::transpose;
use crate::simd::{Amx, Kernel, LANES, SPLIT_SIDE, TILE_K, Vector, logistic, prefetch};
use crate::threads::DisjointSlice;
use std::ops::Range;

const OPERATION: &str = "triangle_update";
/// Channels of which sums are prefetched.
const AHEAD: usize = 4;

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
    in_columns(context, shape, update, sums, pairs, out);
    Ok(())
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

/// The same in single precision: pairs are columns, as sums are.
fn in_columns(
    context: Context,
    shape: TriangleShape,
    update: TriangleUpdate,
    sums: &[f32],
    pairs: &[f32],
    out: &mut [f32],
) {
    let TriangleShape { batch, places, hidden, channels } = shape;
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[gates, weights]| {
        let gates = pack(context, update.gates, channels, gates);
        let weights = pack(context, update.weights, hidden, weights);
        for_blocks(context, batch, places, &|sample, range| {
            BLOCK.with_borrow_mut(|buffers| {
                context.level.run(Columns {
                    shape,
                    update,
                    gates,
                    weights,
                    sums: &sums[sample * hidden * places..(sample + 1) * hidden * places],
                    pairs,
                    sample,
                    places: range,
                    out: &out,
                    buffers,
                });
            });
        });
    });
}

/// Some pairs of a sample, as columns.
struct Columns<'a> {
    shape: TriangleShape,
    update: TriangleUpdate<'a>,
    gates: &'a [Lanes],
    weights: &'a [Lanes],
    /// Of the sample.
    sums: &'a [f32],
    pairs: &'a [f32],
    sample: usize,
    places: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let [sums, columns, gates, updates] = self.buffers;
        let TriangleShape { places: all, hidden, channels, .. } = self.shape;
        let panels = 2 * self.places.len().div_ceil(BLOCK_LANES);
        let (sums, gates) = (lanes(sums, panels * hidden), lanes(gates, 2 * hidden));
        let (columns, updates) = (lanes(columns, 2 * channels), lanes(updates, 2 * channels));
        for channel in 0..hidden {
            // Sums of the next channel may be as far as caches have sets: no hardware prefetches them.
            let ahead = (channel + AHEAD) * all + self.places.start;
            let own = &self.sums[channel * all..][self.places.clone()];
            for panel in 0..panels {
                prefetch(self.sums.as_ptr().wrapping_add(ahead + panel * LANES));
                let own = own.get(panel * LANES..).unwrap_or(&[]);
                let own = load(v, &own[..own.len().min(LANES)]);
                v.store(own, &mut sums[panel * hidden + channel]);
            }
        }
        normalize(v, self.update.sum_norm, sums);
        let firsts = self.places.clone().step_by(BLOCK_LANES);
        for (first, sums) in firsts.zip(sums.chunks_exact_mut(2 * hidden)) {
            let count = BLOCK_LANES.min(self.places.end - first);
            let place = |row: usize| (self.sample * all + first + row) * channels;
            gather(v, count, channels, |row| &self.pairs[place(row)..][..channels], columns);
            normalize(v, self.update.pair_norm, columns);
            let (left, right) = columns.split_at(channels);
            multiply(v, self.gates, [left, right], gates.split_at_mut(hidden).into());
            for (sum, gate) in sums.iter_mut().zip(&*gates) {
                v.store(v.mul(v.load(sum), logistic(v, v.load(gate))), sum);
            }
            let (left, right) = sums.split_at(hidden);
            multiply(v, self.weights, [left, right], updates.split_at_mut(channels).into());
            scatter(v, count, channels, updates, |row, elements, mut value| {
                let range = place(row) + elements.start..place(row) + elements.end;
                if self.update.residual {
                    value = v.add(value, load(v, &self.pairs[range.clone()]));
                }
                // SAFETY: blocks do not share rows.
                store(v, value, unsafe { self.out.slice_mut(range) });
            });
        }
    }
}
