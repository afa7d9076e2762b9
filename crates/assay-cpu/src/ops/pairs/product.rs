//! Products of panels in single precision.

use super::columns::Lanes;
use crate::simd::{Kernel, LANES, Vector};

/// Rows of a block: those in the lanes of two vectors.
pub(super) const BLOCK_LANES: usize = 2 * LANES;
/// Elements summed at a time: a block of so many and a panel of rows stay in L1.
pub(super) const DEPTH: usize = 128;

/// Writes the products of rows and columns, whose elements are as many: `to` has the rows that are wanted, and
/// `columns` and `to` a panel for each half of a block.
///
/// A product is one chain of multiply-adds over all elements, as in a blocked GEMM of the same depth.
#[inline(always)]
pub(super) fn multiply<V: Vector>(
    v: V,
    rows: &[Lanes],
    columns: [&[Lanes]; 2],
    to: [&mut [Lanes]; 2],
) {
    // Inlined into all that calls it, the accumulators would not stay in registers.
    v.call(Product { rows, columns, to });
}

struct Product<'a> {
    rows: &'a [Lanes],
    columns: [&'a [Lanes]; 2],
    to: [&'a mut [Lanes]; 2],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Product { rows, columns, to: [left, right] } = self;
        let all = columns[0].len();
        for first in (0..all).step_by(DEPTH) {
            let depth = first..all.min(first + DEPTH);
            let columns = columns.map(|columns| &columns[depth.clone()]);
            let to = left.chunks_mut(LANES).zip(right.chunks_mut(LANES));
            for (rows, (left, right)) in rows.chunks_exact(all).zip(to) {
                let rows = &rows[depth.clone()];
                if V::HAS_32_REGISTERS {
                    // Sixteen accumulators hide the latency of FMA; a broadcast is used twice.
                    tiles::<V, 8, 2>(v, rows, columns, [left, right], first > 0);
                } else {
                    tiles::<V, 4, 1>(v, rows, [columns[0]], [left], first > 0);
                    tiles::<V, 4, 1>(v, rows, [columns[1]], [right], first > 0);
                }
            }
        }
    }
}

/// A panel of rows, by tiles of `ROWS` rows and `VECTORS` vectors of columns that are summed in registers; `add`
/// continues the sums that are there.
#[inline(always)]
fn tiles<V: Vector, const ROWS: usize, const VECTORS: usize>(
    v: V,
    rows: &[Lanes],
    columns: [&[Lanes]; VECTORS],
    mut to: [&mut [Lanes]; VECTORS],
    add: bool,
) {
    // Two elements at a time: the counter of a loop over one of them costs a tenth.
    let (pairs, last) = rows.as_chunks::<2>();
    let column_pairs = columns.map(|columns| &columns.as_chunks::<2>().0[..pairs.len()]);
    for part in 0..to[0].len().div_ceil(ROWS) {
        // Loops of a constant length: others would keep the sums in memory.
        let mut sums = [[v.splat(0.0); VECTORS]; ROWS];
        if add {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (sum, to) in sums.iter_mut().zip(&to) {
                    if let Some(from) = to.get(part * ROWS + row) {
                        *sum = v.load(from);
                    }
                }
            }
        }
        for (pair, rows) in pairs.iter().enumerate() {
            sums = update(v, sums, &rows[0], part, column_pairs.map(|columns| &columns[pair][0]));
            sums = update(v, sums, &rows[1], part, column_pairs.map(|columns| &columns[pair][1]));
        }
        if let [row] = last {
            sums = update(v, sums, row, part, columns.map(|columns| &columns[2 * pairs.len()]));
        }
        for (row, sums) in sums.iter().enumerate() {
            for (sum, to) in sums.iter().zip(&mut to) {
                if let Some(to) = to.get_mut(part * ROWS + row) {
                    v.store(*sum, to);
                }
            }
        }
    }
}

/// A rank-1 update of a tile.
#[inline(always)]
fn update<V: Vector, const ROWS: usize, const VECTORS: usize>(
    v: V,
    mut sums: [[V::F; VECTORS]; ROWS],
    rows: &Lanes,
    part: usize,
    columns: [&Lanes; VECTORS],
) -> [[V::F; VECTORS]; ROWS] {
    let factors = &rows.as_chunks::<ROWS>().0[part];
    let vectors = columns.map(|column| v.load(column));
    for row in 0..ROWS {
        let factor = v.splat(factors[row]);
        for vector in 0..VECTORS {
            sums[row][vector] = v.mul_add(factor, vectors[vector], sums[row][vector]);
        }
    }
    sums
}
