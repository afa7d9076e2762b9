//! LayerNorm and projections with sigmoid gates, written channel by channel.

use super::block::{
    BLOCK, BLOCK_ROWS, Operand, PART, PackedWeights, WEIGHTS, for_blocks, layer_shape, load, parts,
    store,
};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::gemm::{Epilogue, linear};
use crate::ops::norm::{LayerNorm, Norm, layer_norm};
use crate::ops::split::{AllFinite, pack_columns};
use crate::simd::{Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, TILE_K, TileC, Vector, logistic};
use crate::threads::DisjointSlice;
use assay_operations::Activation;
use std::ops::Range;

const OPERATION: &str = "channel_projection";

/// Extents of [`channel_projection`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaneShape {
    /// Samples.
    pub batch: usize,
    /// Rows of a plane.
    pub rows: usize,
    /// Columns of a plane.
    pub columns: usize,
    /// Elements of a place.
    pub inputs: usize,
    /// Channels of the result.
    pub outputs: usize,
    /// Whether rows and columns are swapped in the result.
    pub transposed: bool,
}

impl PlaneShape {
    fn places(&self) -> usize {
        self.rows * self.columns
    }

    /// Where the inputs of a place of the result are.
    fn source(&self, place: usize) -> usize {
        match self.transposed {
            true => place % self.rows * self.columns + place / self.rows,
            false => place,
        }
    }
}

/// A LayerNorm, projections of its result, and their gates.
#[derive(Clone, Copy, Debug)]
pub struct ChannelProjection<'a> {
    /// Of every place.
    pub norm: LayerNorm<'a>,
    /// (outputs, inputs).
    pub weights: &'a [f32],
    /// (outputs, inputs): a projection is multiplied by the logistic function of its gate.
    pub gates: Option<&'a [f32]>,
    /// A factor for each place.
    pub mask: Option<&'a [f32]>,
}

/// Writes the gated projections of x, [batch, rows, columns, inputs], as [batch, outputs, rows, columns], or with
/// rows and columns swapped.
pub fn channel_projection(
    context: Context,
    shape: PlaneShape,
    projection: ChannelProjection,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let PlaneShape { batch, rows, columns, inputs, outputs, .. } = shape;
    check_value(OPERATION, "inputs", inputs > 0, "at least 1", inputs)?;
    check_length(OPERATION, "norm", projection.norm.weight.len(), &[inputs])?;
    check_length(OPERATION, "weights", projection.weights.len(), &[outputs, inputs])?;
    if let Some(gates) = projection.gates {
        check_length(OPERATION, "gates", gates.len(), &[outputs, inputs])?;
    }
    if let Some(mask) = projection.mask {
        check_length(OPERATION, "mask", mask.len(), &[batch, rows, columns])?;
    }
    check_length(OPERATION, "x", x.len(), &[batch, rows, columns, inputs])?;
    check_length(OPERATION, "out", out.len(), &[batch, outputs, rows, columns])?;
    let norm = Norm::layer(OPERATION, projection.norm)?;
    if let Some(amx) = context.level.amx()
        && tiled(context, amx, shape, norm, projection, x, out)
    {
        return Ok(());
    }
    composed(context, shape, projection, x, out)
}

/// Returns false where a number is not finite, and the result is not to be used.
fn tiled(
    context: Context,
    amx: Amx,
    shape: PlaneShape,
    norm: Norm,
    projection: ChannelProjection,
    x: &[f32],
    out: &mut [f32],
) -> bool {
    let finite = AllFinite::default();
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[weights, gates]| {
        let pack = |matrix, buffer| {
            PackedWeights::new(context, amx, &finite, matrix, shape.inputs, Operand::Left, buffer)
        };
        let weights = pack(projection.weights, weights);
        let gates = projection.gates.map(|matrix| pack(matrix, gates));
        for_blocks(context, shape.batch, shape.places(), &|sample, places| {
            BLOCK.with_borrow_mut(|buffers| {
                finite.note(amx.run(Block {
                    amx,
                    shape,
                    norm,
                    weights: &weights,
                    gates: gates.as_ref(),
                    mask: projection.mask,
                    x,
                    sample,
                    places,
                    out: &out,
                    buffers,
                }));
            });
        });
    });
    finite.get()
}

/// Some places of a sample.
struct Block<'a> {
    amx: Amx,
    shape: PlaneShape,
    norm: Norm<'a>,
    weights: &'a PackedWeights<'a>,
    gates: Option<&'a PackedWeights<'a>>,
    mask: Option<&'a [f32]>,
    x: &'a [f32],
    sample: usize,
    places: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Block<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let [normed, packed, ..] = self.buffers;
        let PlaneShape { inputs, outputs, .. } = self.shape;
        let all = self.shape.places();
        let (steps, first) = (inputs.div_ceil(TILE_K), self.places.start);
        let panels = self.places.len().div_ceil(SPLIT_SIDE);
        let normed = normed.floats(SPLIT_SIDE * inputs);
        let packed = packed.split_steps(panels * steps);
        let mut factors = [1.0; BLOCK_ROWS];
        let mut finite = true;
        for (panel, packed) in packed.chunks_exact_mut(steps).enumerate() {
            let count = SPLIT_SIDE.min(self.places.len() - panel * SPLIT_SIDE);
            for (index, normed) in normed.chunks_exact_mut(inputs).take(count).enumerate() {
                let place = panel * SPLIT_SIDE + index;
                let source = self.sample * all + self.shape.source(first + place);
                self.norm.row(v, &self.x[source * inputs..][..inputs], normed);
                if let Some(mask) = self.mask {
                    factors[place] = mask[source];
                }
            }
            let column = |index: usize| &normed[index * inputs..(index + 1) * inputs];
            finite &= pack_columns(v, self.amx, count, column, packed);
        }
        let session = self.amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let mut gate_sums = sums.clone();
        let mut gates = self.gates.map(|gates| gates.panels());
        for (weights, channels) in self.weights.panels() {
            let gates = gates.as_mut().and_then(Iterator::next).map(|(gates, _)| gates);
            for (panel, packed) in packed.chunks_exact(steps).enumerate() {
                let columns = SplitColumns::packed(packed, &self.weights.offsets);
                session.multiply_split(weights, columns, &mut sums);
                if let Some(gates) = gates {
                    session.multiply_split(gates, columns, &mut gate_sums);
                }
                let place = panel * SPLIT_SIDE;
                let count = SPLIT_SIDE.min(self.places.len() - place);
                for (line, channel) in channels.clone().enumerate() {
                    let start = (self.sample * outputs + channel) * all + first + place;
                    // SAFETY: blocks do not share places.
                    let out = unsafe { self.out.slice_mut(start..start + count) };
                    for (side, out) in out.chunks_mut(LANES).enumerate() {
                        let tile = line / LANES * 2 + side;
                        let mut value = v.load(&sums[tile].0[line % LANES]);
                        if gates.is_some() {
                            let gate = v.load(&gate_sums[tile].0[line % LANES]);
                            value = v.mul(value, logistic(v, gate));
                        }
                        if self.mask.is_some() {
                            let factors = &factors[place + side * LANES..][..LANES];
                            value = v.mul(value, load(v, factors));
                        }
                        store(v, value, out);
                    }
                }
            }
        }
        finite
    }
}

/// The same by other operations.
fn composed(
    context: Context,
    shape: PlaneShape,
    projection: ChannelProjection,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let PlaneShape { batch, inputs, outputs, .. } = shape;
    let (all, norm) = (shape.places(), projection.norm);
    let out = DisjointSlice::new(out);
    PART.with_borrow_mut(|[rows, normed, projected, gated]| {
        for (sample, places) in
            (0..batch).flat_map(|sample| parts(all).map(move |places| (sample, places)))
        {
            let source = |place: usize| sample * all + shape.source(places.start + place);
            let count = places.len();
            rows.clear();
            for place in 0..count {
                rows.extend_from_slice(&x[source(place) * inputs..][..inputs]);
            }
            normed.resize(rows.len(), 0.0);
            layer_norm(context, rows, norm.weight, Some(norm.bias), norm.epsilon, normed)?;
            let layer = layer_shape(count, projection.weights, inputs);
            projected.resize(count * outputs, 0.0);
            let plain = Epilogue::default();
            linear(context, normed, projection.weights, layer, plain, false, projected)?;
            if let Some(gates) = projection.gates {
                gated.resize(count * outputs, 0.0);
                let sigmoid = Epilogue { activation: Activation::Sigmoid, ..plain };
                linear(context, normed, gates, layer, sigmoid, false, gated)?;
            }
            let (projected, gated) = (&*projected, &*gated);
            context.threads.parallel_for(outputs, 1, &|channels| {
                for channel in channels {
                    let start = (sample * outputs + channel) * all + places.start;
                    // SAFETY: channels do not overlap.
                    let out = unsafe { out.slice_mut(start..start + count) };
                    for (place, out) in out.iter_mut().enumerate() {
                        let at = place * outputs + channel;
                        let gate = projection.gates.map_or(1.0, |_| gated[at]);
                        let factor = projection.mask.map_or(1.0, |mask| mask[source(place)]);
                        *out = projected[at] * gate * factor;
                    }
                }
            });
        }
        Ok(())
    })
}
