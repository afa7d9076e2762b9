//! The innermost tile of a matrix product: a few rows by a few vectors, held in registers.

use crate::simd::{LANES, Vector};
use crate::threads::Disjoint;

/// Adds the product of a packed panel of `ROWS` rows and one of `WIDE` vectors to a tile.
#[inline(always)]
pub(super) fn tile<V: Vector, const ROWS: usize, const WIDE: usize>(
    v: V,
    a: &[f32],
    b: &[f32],
) -> [[V::F; WIDE]; ROWS] {
    let mut sums = [[v.splat(0.0); WIDE]; ROWS];
    let steps = b.as_chunks::<LANES>().0.as_chunks::<WIDE>().0;
    for (a, b) in a.as_chunks::<ROWS>().0.iter().zip(steps) {
        let mut across = [v.splat(0.0); WIDE];
        for wide in 0..WIDE {
            across[wide] = v.load(&b[wide]);
        }
        for row in 0..ROWS {
            let factor = v.splat(a[row]);
            for wide in 0..WIDE {
                sums[row][wide] = v.mul_add(factor, across[wide], sums[row][wide]);
            }
        }
    }
    sums
}

/// Where a tile goes in the output, and whether it adds to what is there.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub first: usize,
    pub stride: usize,
    pub rows: usize,
    pub columns: usize,
    pub add: bool,
}

impl Target {
    /// Brings the tile to the cache while its sums are made: they would wait for it at the end.
    #[inline(always)]
    pub fn prefetch(&self, out: &Disjoint<f32>) {
        for row in 0..self.rows {
            for column in (0..self.columns).step_by(LANES) {
                out.prefetch(self.first + row * self.stride + column);
            }
        }
    }
}

/// Writes as much of a tile as lies in the output.
///
/// # Safety
///
/// No other thread touches this tile of the output.
#[inline(always)]
pub(super) unsafe fn store_tile<V: Vector, const ROWS: usize, const WIDE: usize>(
    v: V,
    sums: &[[V::F; WIDE]; ROWS],
    out: &Disjoint<f32>,
    target: Target,
) {
    for (row, sums) in sums.iter().enumerate().take(target.rows) {
        let first = target.first + row * target.stride;
        // SAFETY: the caller has this tile to itself.
        let out = unsafe { out.part(first..first + target.columns) };
        let (whole, rest) = out.as_chunks_mut::<LANES>();
        for (out, sum) in whole.iter_mut().zip(sums) {
            let value = match target.add {
                true => v.add(*sum, v.load(out)),
                false => *sum,
            };
            v.store(value, out);
        }
        if let Some(sum) = sums.get(whole.len()) {
            let mut lanes = [0.0; LANES];
            v.store(*sum, &mut lanes);
            for (out, lane) in rest.iter_mut().zip(lanes) {
                *out = if target.add { *out + lane } else { lane };
            }
        }
    }
}
