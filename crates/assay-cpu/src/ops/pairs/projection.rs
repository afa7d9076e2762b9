//! LayerNorm and projections with sigmoid gates, written channel by channel.

use super::block::{BLOCK, BLOCK_ROWS, Operand, PackedWeights, WEIGHTS, for_blocks, load, store};
use super::columns::{Lanes, gather, lanes, normalize, pack};
use super::product::{BLOCK_LANES, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::norm::{LayerNorm, Norm};
use crate::ops::split::{AllFinite, pack_columns};
use crate::simd::{Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, TILE_K, TileC, Vector, logistic};
use crate::threads::DisjointSlice;
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
    in_columns(context, shape, projection, x, out);
    Ok(())
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

/// The same in single precision: places are columns.
fn in_columns(
    context: Context,
    shape: PlaneShape,
    projection: ChannelProjection,
    x: &[f32],
    out: &mut [f32],
) {
    let out = DisjointSlice::new(out);
    WEIGHTS.with_borrow_mut(|[weights, gates]| {
        let weights = pack(context, projection.weights, shape.inputs, weights);
        let gates = projection.gates.map(|matrix| pack(context, matrix, shape.inputs, gates));
        for_blocks(context, shape.batch, shape.places(), &|sample, places| {
            BLOCK.with_borrow_mut(|buffers| {
                context.level.run(Columns {
                    shape,
                    norm: projection.norm,
                    weights,
                    gates,
                    mask: projection.mask,
                    x,
                    sample,
                    places,
                    out: &out,
                    buffers,
                });
            });
        });
    });
}

/// Some places of a sample, as columns.
struct Columns<'a> {
    shape: PlaneShape,
    norm: LayerNorm<'a>,
    weights: &'a [Lanes],
    gates: Option<&'a [Lanes]>,
    mask: Option<&'a [f32]>,
    x: &'a [f32],
    sample: usize,
    places: Range<usize>,
    out: &'a DisjointSlice<'a, f32>,
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let [columns, values, gate_values, _] = self.buffers;
        let PlaneShape { inputs, outputs, .. } = self.shape;
        let (all, first, count) = (self.shape.places(), self.places.start, self.places.len());
        let blocks = count.div_ceil(BLOCK_LANES);
        let columns = lanes(columns, 2 * blocks * inputs);
        let values = lanes(values, 2 * blocks * LANES);
        let gate_values = lanes(gate_values, 2 * blocks * LANES);
        let source = |place: usize| self.sample * all + self.shape.source(first + place);
        gather(v, count, inputs, |place| &self.x[source(place) * inputs..][..inputs], columns);
        normalize(v, self.norm, columns);
        let mut factors = [1.0; BLOCK_ROWS];
        if let Some(mask) = self.mask {
            for (place, factor) in factors.iter_mut().enumerate().take(count) {
                *factor = mask[source(place)];
            }
        }
        let (factors, _) = factors.as_chunks();
        for (panel, weights) in self.weights.chunks_exact(inputs).enumerate() {
            let channels = LANES.min(outputs - panel * LANES);
            project(v, weights, columns, channels, values);
            if let Some(gates) = self.gates {
                project(v, &gates[panel * inputs..][..inputs], columns, channels, gate_values);
            }
            // All places of a channel, since those of the next may be as far as caches have sets.
            for line in 0..channels {
                let start = (self.sample * outputs + panel * LANES + line) * all + first;
                // SAFETY: blocks do not share places.
                let out = unsafe { self.out.slice_mut(start..start + count) };
                for (side, out) in out.chunks_mut(LANES).enumerate() {
                    let mut value = v.load(&values[side * channels + line]);
                    if self.gates.is_some() {
                        let gate = v.load(&gate_values[side * channels + line]);
                        value = v.mul(value, logistic(v, gate));
                    }
                    if self.mask.is_some() {
                        value = v.mul(value, v.load(&factors[side]));
                    }
                    store(v, value, out);
                }
            }
        }
    }
}

/// Writes the products of the first `count` rows of a panel with blocks of columns.
#[inline(always)]
fn project<V: Vector>(v: V, rows: &[Lanes], columns: &[Lanes], count: usize, to: &mut [Lanes]) {
    let depth = rows.len();
    for (columns, to) in columns.chunks_exact(2 * depth).zip(to.chunks_exact_mut(2 * count)) {
        multiply(v, rows, columns.split_at(depth).into(), to.split_at_mut(count).into());
    }
}
