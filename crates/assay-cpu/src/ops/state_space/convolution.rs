//! Causal depthwise convolution over the rows of each sequence, then SiLU.

use super::sequences::{SequenceRows, StateBatch};
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::activation::activate_in_place;
use crate::simd::{Kernel, Vector};
use crate::threads::DisjointSlice;
use assay_operations::Activation;
use std::ops::Range;

/// Channels of a task: a few cache lines of each row.
const CHANNEL_TILE: usize = 512;

/// The convolved columns and the filters.
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'a> {
    /// Elements of a row of the input.
    pub columns: usize,
    /// The first convolved column.
    pub first: usize,
    /// How many columns are convolved.
    pub channels: usize,
    /// Taps x channels; the last tap is for the row itself.
    pub weight: &'a [f32],
    /// One for each channel.
    pub bias: Option<&'a [f32]>,
}

impl Convolution<'_> {
    fn check(&self, operation: &'static str) -> Result<usize> {
        let end = self.first.saturating_add(self.channels);
        let fits = self.channels > 0 && end <= self.columns;
        check_value(
            operation,
            "channels",
            fits,
            format_args!("1 or more of {} columns", self.columns),
            format_args!("{} from {} on", self.channels, self.first),
        )?;
        let taps = self.weight.len() / self.channels;
        check_value(operation, "kernel", taps > 1, "at least 2", taps)?;
        check_length(operation, "weight", self.weight.len(), &[taps, self.channels])?;
        if let Some(bias) = self.bias {
            check_length(operation, "bias", bias.len(), &[self.channels])?;
        }
        Ok(taps)
    }
}

/// Writes the convolution of every row to `out`, rows x channels, and updates the state, slots x
/// (taps - 1) x channels: the inputs before a sequence's next row. Rows of no sequence become zeros.
pub fn causal_convolution(
    context: Context,
    convolution: Convolution,
    batch: StateBatch,
    x: &[f32],
    state: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let operation = "causal_convolution";
    let taps = convolution.check(operation)?;
    let (columns, channels) = (convolution.columns, convolution.channels);
    let rows = x.len() / columns;
    check_length(operation, "x", x.len(), &[rows, columns])?;
    check_length(operation, "out", out.len(), &[rows, channels])?;
    let slot = (taps - 1) * channels;
    let states = state.len() / slot;
    check_length(operation, "state", state.len(), &[states, slot])?;
    batch.check(operation, rows, states)?;
    out.fill(0.0);
    let tiles = channels.div_ceil(CHANNEL_TILE);
    let (state, out) = (DisjointSlice::new(state), DisjointSlice::new(out));
    let tasks = batch.seq_lens.len() * tiles;
    context.threads.run(tasks, &|task| {
        let Some(sequence) = batch.sequence(task / tiles) else {
            return;
        };
        let from = task % tiles * CHANNEL_TILE;
        context.level.run(ConvolutionTile {
            convolution,
            taps,
            x,
            sequence,
            tile: from..channels.min(from + CHANNEL_TILE),
            state: &state,
            out: &out,
        });
    });
    Ok(())
}

/// Some channels of all rows of one sequence.
struct ConvolutionTile<'a> {
    convolution: Convolution<'a>,
    taps: usize,
    x: &'a [f32],
    sequence: SequenceRows,
    tile: Range<usize>,
    state: &'a DisjointSlice<'a, f32>,
    out: &'a DisjointSlice<'a, f32>,
}

impl ConvolutionTile<'_> {
    /// Where the tile's channels of a past input are in the state.
    fn past(&self, index: usize) -> Range<usize> {
        let channels = self.convolution.channels;
        let start = (self.sequence.slot * (self.taps - 1) + index) * channels;
        start + self.tile.start..start + self.tile.end
    }

    /// The inputs of one row, counted from `taps - 1` rows before the sequence's first one.
    #[inline(always)]
    fn input(&self, index: usize) -> Option<&[f32]> {
        if let Some(row) = index.checked_sub(self.taps - 1) {
            let start = (self.sequence.rows.start + row) * self.convolution.columns;
            let start = start + self.convolution.first;
            return Some(&self.x[start + self.tile.start..start + self.tile.end]);
        }
        // SAFETY: each task has its own sequence and channels, and borrows one row at a time.
        (!self.sequence.begins).then(|| &*unsafe { self.state.slice_mut(self.past(index)) })
    }
}

impl Kernel for ConvolutionTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Convolution { channels, weight, bias, .. } = self.convolution;
        for row in 0..self.sequence.rows.len() {
            let start = (self.sequence.rows.start + row) * channels;
            let range = start + self.tile.start..start + self.tile.end;
            // SAFETY: each task has its own rows and channels.
            let out = unsafe { self.out.slice_mut(range) };
            match bias {
                Some(bias) => out.copy_from_slice(&bias[self.tile.clone()]),
                None => out.fill(0.0),
            }
            for tap in 0..self.taps {
                let Some(input) = self.input(row + tap) else {
                    continue;
                };
                let filter = &weight[tap * channels..][self.tile.clone()];
                for ((out, input), filter) in out.iter_mut().zip(input).zip(filter) {
                    *out += input * filter;
                }
            }
            activate_in_place(v, Activation::Silu, out);
        }
        // In rising order: where a sequence has fewer rows than taps, a past input moves down.
        for index in 0..self.taps - 1 {
            let next = self.sequence.rows.len() + index;
            let kept: Option<Vec<f32>> = self.input(next).map(<[f32]>::to_vec);
            // SAFETY: as above; the borrow of the input has ended.
            let past = unsafe { self.state.slice_mut(self.past(index)) };
            match kept {
                Some(kept) => past.copy_from_slice(&kept),
                None => past.fill(0.0),
            }
        }
    }
}
