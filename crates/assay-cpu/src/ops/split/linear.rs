//! Linear layers of many rows, over weights of any element type.

use super::finite::AllFinite;
use super::packing::{PackColumns, PackRows};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::dispatch::Element;
use crate::ops::gemm::{Epilogue, LinearShape};
use crate::simd::{
    Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Rows from which packing pays off.
const MIN_ROWS: usize = 32;
/// Packed rows that stay in the L2 of a core.
const BLOCK_BYTES: usize = 3 << 18;
/// Rows, and columns, that are packed at a time.
const PACKED_BYTES: usize = 16 << 20;

thread_local! {
    /// The packed rows and columns of a call.
    static PACKED: RefCell<[AlignedBuffer; 2]> = RefCell::default();
}

/// Whether [`split_linear`] pays off.
pub(crate) fn split_linear_applies(shape: LinearShape) -> bool {
    shape.rows >= MIN_ROWS && shape.outputs >= LANES && shape.inputs >= TILE_K
}

/// Writes the layer's outputs; returns false where a number is not finite, and they are not to be used.
pub(crate) fn split_linear<T: Element>(
    context: Context,
    amx: Amx,
    x: &[f32],
    weights: &[T],
    shape: LinearShape,
    epilogue: Epilogue,
    out: &mut [f32],
) -> bool {
    let steps = shape.inputs.div_ceil(TILE_K);
    let row_panels = shape.rows.div_ceil(SPLIT_SIDE);
    let column_panels = shape.outputs.div_ceil(SPLIT_SIDE);
    let most = (PACKED_BYTES / (steps * size_of::<SplitStep>())).max(1);
    let layer = Layer {
        context,
        amx,
        shape,
        epilogue,
        offsets: StepOffsets::adjacent(steps),
        finite: AllFinite::default(),
        out: DisjointSlice::new(out),
    };
    PACKED.with_borrow_mut(|[rows, columns]| {
        for first in (0..row_panels).step_by(most) {
            let row_range = first..row_panels.min(first + most);
            let rows = rows.split_steps(row_range.len() * steps);
            layer.pack(row_range.clone(), rows, |panel, out| {
                amx.run(PackRows::new(amx, x, shape.inputs, panel, out))
            });
            for first in (0..column_panels).step_by(most) {
                let column_range = first..column_panels.min(first + most);
                let columns = columns.split_steps(column_range.len() * steps);
                layer.pack(column_range.clone(), columns, |panel, out| {
                    T::pack_columns(amx, PackColumns::new(amx, weights, shape.inputs, panel, out))
                });
                layer.multiply(row_range.clone(), rows, column_range, columns);
            }
        }
    });
    layer.finite.get()
}

/// What both packing and multiplying need of a layer.
struct Layer<'a> {
    context: Context<'a>,
    amx: Amx,
    shape: LinearShape,
    epilogue: Epilogue<'a>,
    offsets: StepOffsets,
    finite: AllFinite,
    out: DisjointSlice<'a, f32>,
}

impl Layer<'_> {
    /// Packs panels, which threads share.
    fn pack(
        &self,
        panels: Range<usize>,
        packed: &mut [SplitStep],
        pack: impl Fn(usize, &mut [SplitStep]) -> bool + Sync,
    ) {
        let steps = packed.len() / panels.len();
        let packed = DisjointSlice::new(packed);
        self.context.threads.parallel_for(panels.len(), 1, &|range| {
            for index in range {
                // SAFETY: panels do not overlap.
                let out = unsafe { packed.slice_mut(index * steps..(index + 1) * steps) };
                self.finite.note(pack(panels.start + index, out));
            }
        });
    }

    fn multiply(
        &self,
        row_range: Range<usize>,
        rows: &[SplitStep],
        column_range: Range<usize>,
        columns: &[SplitStep],
    ) {
        let steps = rows.len() / row_range.len();
        let block = (BLOCK_BYTES / (steps * size_of::<SplitStep>())).clamp(1, row_range.len());
        let blocks = row_range.len().div_ceil(block);
        // Blocks one after the other: all cores read the same.
        self.context.threads.run(blocks * column_range.len(), &|task| {
            let (first, panel) = (task / column_range.len() * block, task % column_range.len());
            let last = (first + block).min(row_range.len());
            let start = (row_range.start + first) * SPLIT_SIDE;
            self.amx.run(Panel {
                amx: self.amx,
                packed: &rows[first * steps..last * steps],
                rows: start..self.shape.rows.min((row_range.start + last) * SPLIT_SIDE),
                columns: &columns[panel * steps..(panel + 1) * steps],
                outputs: self.shape.outputs,
                panel: column_range.start + panel,
                epilogue: self.epilogue,
                offsets: &self.offsets,
                out: &self.out,
            });
        });
    }
}

/// Some rows by 32 outputs.
struct Panel<'a> {
    amx: Amx,
    packed: &'a [SplitStep],
    rows: Range<usize>,
    columns: &'a [SplitStep],
    outputs: usize,
    panel: usize,
    epilogue: Epilogue<'a>,
    offsets: &'a StepOffsets,
    out: &'a DisjointSlice<'a, f32>,
}

impl Kernel for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let first = self.panel * SPLIT_SIDE;
        let places = first..self.outputs.min(first + SPLIT_SIDE);
        let session = self.amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        let columns = SplitColumns::packed(self.columns, self.offsets);
        let panels = self.packed.chunks_exact(self.columns.len());
        for (rows, packed) in self.rows.clone().step_by(SPLIT_SIDE).zip(panels) {
            session.multiply_split(packed, columns, &mut sums);
            for row in rows..self.rows.end.min(rows + SPLIT_SIDE) {
                let at = row - rows;
                let start = row * self.outputs;
                // SAFETY: tasks do not share rows and columns.
                let out = unsafe { self.out.slice_mut(start + places.start..start + places.end) };
                for side in 0..2 {
                    let line = &sums[at / LANES * 2 + side].0[at % LANES];
                    let part = &mut out[(side * LANES).min(places.len())..];
                    match part.first_chunk_mut::<LANES>() {
                        Some(part) => v.store(v.load(line), part),
                        None => part.copy_from_slice(&line[..part.len()]),
                    }
                }
                self.epilogue.apply(v, start, places.clone(), out);
            }
        }
    }
}
