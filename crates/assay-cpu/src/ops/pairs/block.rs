//! Packed weights, and blocks of rows that are multiplied with them.

use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::dispatch::ElementKernels;
use crate::ops::split::{AllFinite, PackColumns, PackRows};
use crate::simd::{
    Amx, AmxSession, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC,
    Vector, load_partial, store_partial,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Rows of a block: their results are whole cache lines, also of transposed outputs.
pub(super) const BLOCK_ROWS: usize = 4 * SPLIT_SIDE;

thread_local! {
    /// The packed weights of a call.
    pub(super) static WEIGHTS: RefCell<[AlignedBuffer; 2]> = RefCell::default();
    /// What a block computes.
    pub(super) static BLOCK: RefCell<[AlignedBuffer; 4]> = RefCell::default();
}

/// Which operand of a product weights are.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Left,
    Right,
}

/// The weights of a linear layer, by panels of 32 outputs.
pub(super) struct PackedWeights<'a> {
    steps: &'a [SplitStep],
    pub offsets: StepOffsets,
    pub outputs: usize,
}

impl<'a> PackedWeights<'a> {
    /// Packs weights of (outputs, inputs); threads share the panels.
    pub fn new(
        context: Context,
        amx: Amx,
        finite: &AllFinite,
        weights: &[f32],
        inputs: usize,
        operand: Operand,
        buffer: &'a mut AlignedBuffer,
    ) -> Self {
        let (outputs, count) = (weights.len() / inputs, inputs.div_ceil(TILE_K));
        let panels = outputs.div_ceil(SPLIT_SIDE);
        let steps = buffer.split_steps(panels * count);
        let packed = DisjointSlice::new(&mut *steps);
        context.threads.parallel_for(panels, 1, &|range| {
            for panel in range {
                // SAFETY: panels do not overlap.
                let out = unsafe { packed.slice_mut(panel * count..(panel + 1) * count) };
                finite.note(match operand {
                    Operand::Left => amx.run(PackRows::new(amx, weights, inputs, panel, out)),
                    Operand::Right => {
                        f32::pack_columns(amx, PackColumns::new(amx, weights, inputs, panel, out))
                    }
                });
            }
        });
        PackedWeights { steps, offsets: StepOffsets::adjacent(count), outputs }
    }

    /// The panels, and the outputs of each.
    pub fn panels(&self) -> impl Iterator<Item = (&[SplitStep], Range<usize>)> {
        let panels = self.steps.chunks_exact(self.offsets.count());
        panels.enumerate().map(|(panel, steps)| {
            let first = panel * SPLIT_SIDE;
            (steps, first..self.outputs.min(first + SPLIT_SIDE))
        })
    }

    /// Calls `take` with sixteen outputs, or what is left of them, of each of the first `count` packed rows.
    #[inline(always)]
    pub fn multiply<V: Vector>(
        &self,
        v: V,
        session: &AmxSession,
        rows: &[SplitStep],
        count: usize,
        mut take: impl FnMut(usize, Range<usize>, V::F),
    ) {
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        for (steps, outputs) in self.panels() {
            let columns = SplitColumns::packed(steps, &self.offsets);
            session.multiply_split(rows, columns, &mut sums);
            for (side, first) in outputs.clone().step_by(LANES).enumerate() {
                let part = first..outputs.end.min(first + LANES);
                for row in 0..count {
                    let lanes = v.load(&sums[row / LANES * 2 + side].0[row % LANES]);
                    take(row, part.clone(), lanes);
                }
            }
        }
    }
}

/// Calls `work` with ranges of at most [`BLOCK_ROWS`] of `rows` rows of each of `batch` samples.
pub(super) fn for_blocks(
    context: Context,
    batch: usize,
    rows: usize,
    work: &(dyn Fn(usize, Range<usize>) + Sync),
) {
    let blocks = rows.div_ceil(BLOCK_ROWS);
    context.threads.run(batch * blocks, &|task| {
        let first = task % blocks * BLOCK_ROWS;
        work(task / blocks, first..rows.min(first + BLOCK_ROWS));
    });
}

/// Loads at most sixteen elements; the other lanes are zero.
#[inline(always)]
pub(super) fn load<V: Vector>(v: V, from: &[f32]) -> V::F {
    match from.first_chunk() {
        Some(from) => v.load(from),
        None => load_partial(v, from, 0.0),
    }
}

/// Stores as many lanes as there are elements.
#[inline(always)]
pub(super) fn store<V: Vector>(v: V, value: V::F, to: &mut [f32]) {
    match to.first_chunk_mut() {
        Some(to) => v.store(value, to),
        None => store_partial(v, value, to),
    }
}
