//! Products of many small matrices, a thread each, or a thread for some rows of each.

use super::finite::AllFinite;
use super::packing::{pack_columns, pack_rows};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::Matrix;
use crate::ops::transposing::transpose;
use crate::simd::{
    Amx, Kernel, LANES, SPLIT_SIDE, SplitColumns, SplitStep, StepOffsets, TILE_K, TileC, Vector,
};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// Rows, columns and depth from which packing pays off.
const LEAST: usize = 16;
/// Rows of a product from which a thread packs all of its columns for them alone.
const LEAST_ROWS: usize = 2 * SPLIT_SIDE;
/// Packed columns that stay in the L2 of a core.
const MOST_BYTES: usize = 1 << 20;

thread_local! {
    /// Packed columns; packed rows; rows that were columns.
    static PACKED: RefCell<[AlignedBuffer; 3]> = RefCell::default();
}

/// Whether [`split_products`] pays off for a batch of such matrices.
pub(crate) fn split_products_apply(batch: usize, a: &Matrix, b: &Matrix) -> bool {
    let steps = b.columns.div_ceil(SPLIT_SIDE) * a.columns.div_ceil(TILE_K);
    batch > 1
        && a.rows.min(b.columns).min(a.columns) >= LEAST
        && (a.column_stride == 1 || a.row_stride == 1)
        && (b.column_stride == 1 || b.row_stride == 1)
        && steps * size_of::<SplitStep>() <= MOST_BYTES
}

/// Rows of a product that a thread computes, so that there is work for all threads.
fn rows_of_a_task(rows: usize, batch: usize, threads: usize) -> usize {
    let parts = threads.div_ceil(batch).min(rows / LEAST_ROWS).max(1);
    rows.div_ceil(parts).next_multiple_of(SPLIT_SIDE)
}

/// Writes the product of each pair of matrices, row-major, one after the other; returns false where a number is not
/// finite, and they are not to be used.
pub(crate) fn split_products<'a>(
    context: Context,
    amx: Amx,
    matrices: &(dyn Fn(usize) -> (Matrix<'a>, Matrix<'a>) + Sync),
    each: usize,
    out: &mut [f32],
) -> bool {
    let finite = AllFinite::default();
    let batch = out.len() / each;
    let rows = matrices(0).0.rows;
    let most = rows_of_a_task(rows, batch, context.threads.count());
    let parts = rows.div_ceil(most);
    let out = DisjointSlice::new(out);
    context.threads.run(batch * parts, &|task| {
        let (index, first) = (task / parts, task % parts * most);
        let (a, b) = matrices(index);
        let rows = most.min(a.rows - first);
        let a = Matrix { data: &a.data[first * a.row_stride..], rows, ..a };
        let begin = index * each + first * b.columns;
        // SAFETY: rows of products do not overlap.
        let out = unsafe { out.slice_mut(begin..begin + rows * b.columns) };
        PACKED.with_borrow_mut(|buffers| {
            finite.note(amx.run(Product { amx, a, b, out, buffers }));
        });
    });
    finite.get()
}

struct Product<'a> {
    amx: Amx,
    a: Matrix<'a>,
    b: Matrix<'a>,
    out: &'a mut [f32],
    buffers: &'a mut [AlignedBuffer; 3],
}

impl Kernel for Product<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> bool {
        let Product { amx, a, b, out, buffers } = self;
        let [columns, rows, transposed] = buffers;
        let (depth, width) = (a.columns, b.columns);
        let steps = depth.div_ceil(TILE_K);
        let columns = columns.split_steps(width.div_ceil(SPLIT_SIDE) * steps);
        let rows = rows.split_steps(steps);
        let mut finite = true;
        for (panel, packed) in columns.chunks_exact_mut(steps).enumerate() {
            finite &= pack_column_panel(v, amx, &b, panel * SPLIT_SIDE, packed);
        }
        let offsets = StepOffsets::adjacent(steps);
        let session = amx.session();
        let mut sums = [const { TileC([[0.0; LANES]; LANES]) }; 4];
        for first in (0..a.rows).step_by(SPLIT_SIDE) {
            let count = SPLIT_SIDE.min(a.rows - first);
            finite &= pack_row_panel(v, amx, &a, first, transposed, rows);
            for (panel, packed) in columns.chunks_exact(steps).enumerate() {
                session.multiply_split(rows, SplitColumns::packed(packed, &offsets), &mut sums);
                let place = panel * SPLIT_SIDE;
                let most = SPLIT_SIDE.min(width - place);
                for row in 0..count {
                    let out = &mut out[(first + row) * width + place..][..most];
                    for (side, out) in out.chunks_mut(LANES).enumerate() {
                        let line = &sums[row / LANES * 2 + side].0[row % LANES];
                        match out.first_chunk_mut() {
                            Some(out) => v.store(v.load(line), out),
                            None => out.copy_from_slice(&line[..out.len()]),
                        }
                    }
                }
            }
        }
        finite
    }
}

/// Packs 32 rows from `first` on, whichever of their elements are adjacent.
#[inline(always)]
pub(crate) fn pack_row_panel<V: Vector>(
    v: V,
    amx: Amx,
    a: &Matrix,
    first: usize,
    transposed: &mut AlignedBuffer,
    out: &mut [SplitStep],
) -> bool {
    let (depth, count) = (a.columns, SPLIT_SIDE.min(a.rows - first));
    if a.column_stride == 1 {
        let row = |row: usize| &a.data[(first + row) * a.row_stride..][..depth];
        return pack_rows(v, amx, count, 1.0, row, out);
    }
    let lines = transposed.floats(SPLIT_SIDE * depth);
    transpose(v, &a.data[first..], a.column_stride, depth, count, lines);
    let row = |row: usize| &lines[row * depth..(row + 1) * depth];
    pack_rows(v, amx, count, 1.0, row, out)
}

/// Packs 32 columns from `first` on, whichever of their elements are adjacent.
#[inline(always)]
pub(crate) fn pack_column_panel<V: Vector>(
    v: V,
    amx: Amx,
    b: &Matrix,
    first: usize,
    out: &mut [SplitStep],
) -> bool {
    let count = b.columns - first;
    if b.row_stride == 1 {
        let column = |index: usize| &b.data[(first + index) * b.column_stride..][..b.rows];
        return pack_columns(v, amx, count, column, out);
    }
    let mut finite = true;
    for (step, out) in out.iter_mut().enumerate() {
        for pair in 0..LANES {
            for side in 0..2 {
                let lanes = |half: usize| {
                    let (row, column) = (step * TILE_K + 2 * pair + half, side * LANES);
                    let mut lanes = [0.0; LANES];
                    if row < b.rows && column < count {
                        let line = &b.data[row * b.row_stride + first + column..];
                        let most = LANES.min(count - column);
                        lanes[..most].copy_from_slice(&line[..most]);
                    }
                    lanes
                };
                finite &= amx.split_pairs(&lanes(0), &lanes(1), out.row(side * LANES + pair));
            }
        }
    }
    finite
}

#[cfg(test)]
mod tests {
    use super::rows_of_a_task;

    #[test]
    fn few_products_are_divided_among_all_threads() {
        // A thread each; eight for each of two; rows too few to divide; as many parts as rows suffice for.
        assert_eq!(rows_of_a_task(1024, 16, 16), 1024);
        assert_eq!(rows_of_a_task(1024, 2, 16), 128);
        assert_eq!(rows_of_a_task(100, 2, 16), 128);
        assert_eq!(rows_of_a_task(200, 2, 64), 96);
        assert_eq!(rows_of_a_task(16, 3, 1), 32);
    }
}
