//! Products of rows with rows, of many small planes: the sums over triangles, a plane for each channel.

use super::block::{BLOCK, store};
use super::columns::{gather, lanes};
use super::product::{BLOCK_LANES, DEPTH, multiply};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::ops::gemm::Matrix;
use crate::simd::{Kernel, LANES, Vector, prefetch};
use crate::threads::DisjointSlice;

/// Planes that are worth a task each.
const MIN_PLANES: usize = 16;
/// Rows and columns from which a GEMM is blocked, too: its products then have the same bits.
const MIN_ROWS: usize = 2 * LANES;
/// Columns of the next block that are prefetched beside a panel of rows.
const AHEAD: usize = 4;
/// Elements of both factors of a plane at most: they stay in L2.
const MAX_ELEMENTS: usize = 1 << 17;

/// Whether [`plane_products`] is faster than a GEMM for each plane, whose blocks threads would share.
///
/// Fewer planes have the same products by GEMMs: over so few elements, either is one chain of multiply-adds.
pub fn plane_products_apply(count: usize, left: &Matrix, right: &Matrix) -> bool {
    let elements = (left.rows + right.columns) * left.columns;
    left.column_stride == 1
        && right.row_stride == 1
        && left.rows.min(right.columns) >= MIN_ROWS
        && (1..=DEPTH).contains(&left.columns)
        && count >= MIN_PLANES
        && elements <= MAX_ELEMENTS
}

/// Writes the products of many pairs of matrices, which are all of one shape, one after the other; rows of the left
/// matrices are contiguous, as are columns of the right ones.
pub fn plane_products<'a>(
    context: Context,
    matrices: &(dyn Fn(usize) -> (Matrix<'a>, Matrix<'a>) + Sync),
    size: usize,
    out: &mut [f32],
) {
    let count = out.len() / size;
    let out = DisjointSlice::new(out);
    context.threads.run(count, &|index| {
        let (left, right) = matrices(index);
        // SAFETY: planes do not overlap.
        let out = unsafe { out.slice_mut(index * size..(index + 1) * size) };
        BLOCK.with_borrow_mut(|buffers| {
            context.level.run(Plane { left, right, out, buffers });
        });
    });
}

/// One product.
struct Plane<'a> {
    left: Matrix<'a>,
    right: Matrix<'a>,
    out: &'a mut [f32],
    buffers: &'a mut [AlignedBuffer; 4],
}

impl Kernel for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Plane { left, right, out, buffers: [rows, columns, sums, _] } = self;
        let (depth, width) = (left.columns, right.columns);
        let rows = lanes(rows, left.rows.div_ceil(LANES) * depth);
        let (columns, sums) = (lanes(columns, 2 * depth), lanes(sums, 2 * LANES));
        gather(v, left.rows, depth, |row| &left.data[row * left.row_stride..][..depth], rows);
        for first in (0..width).step_by(BLOCK_LANES) {
            let count = BLOCK_LANES.min(width - first);
            let column =
                |index: usize| &right.data[(first + index) * right.column_stride..][..depth];
            gather(v, count, depth, column, columns);
            let (before, after) = columns.split_at(depth);
            let mut next = first + BLOCK_LANES..width.min(first + 2 * BLOCK_LANES);
            let out_panels = out.chunks_mut(LANES * width);
            for (rows, out) in rows.chunks_exact(depth).zip(out_panels) {
                for column in next.by_ref().take(AHEAD) {
                    for element in (0..depth).step_by(LANES) {
                        prefetch(&right.data[column * right.column_stride + element]);
                    }
                }
                multiply(v, rows, [before, after], sums.split_at_mut(LANES).into());
                for (row, out) in out.chunks_exact_mut(width).enumerate() {
                    for (side, out) in out[first..first + count].chunks_mut(LANES).enumerate() {
                        store(v, v.load(&sums[side * LANES + row]), out);
                    }
                }
            }
        }
    }
}
