//! The micro-kernel of a GEMM: an MR x NR tile of the output, accumulated in registers.

use crate::simd::{LANES, Level, Vector};
use crate::threads::DisjointSlice;

/// The register tile of a SIMD level.
#[derive(Clone, Copy)]
pub(super) enum RegisterTile {
    /// 12 rows by 32 columns.
    Large,
    /// 6 rows by 16 columns.
    Middle,
    /// 2 rows by 16 columns.
    Small,
}

impl RegisterTile {
    pub fn of(level: Level) -> Self {
        match level.name() {
            _ if level.is_avx512() => RegisterTile::Large,
            "portable" => RegisterTile::Small,
            _ => RegisterTile::Middle,
        }
    }

    pub fn mr(self) -> usize {
        match self {
            RegisterTile::Large => 12,
            RegisterTile::Middle => 6,
            RegisterTile::Small => 2,
        }
    }

    pub fn nr(self) -> usize {
        match self {
            RegisterTile::Large => 2 * LANES,
            RegisterTile::Middle | RegisterTile::Small => LANES,
        }
    }
}

/// The product of a packed panel of A (`MR` rows) and one of B (`NR_VECTORS` vectors of columns), as
/// rank-1 updates of a register tile.
#[inline(always)]
pub(in crate::ops) fn microkernel<V: Vector, const MR: usize, const NR_VECTORS: usize>(
    v: V,
    a: &[f32],
    b: &[f32],
) -> [[V::F; NR_VECTORS]; MR] {
    let mut sums = [[v.splat(0.0); NR_VECTORS]; MR];
    let steps = b.as_chunks::<LANES>().0.as_chunks::<NR_VECTORS>().0;
    for (a, b) in a.as_chunks::<MR>().0.iter().zip(steps) {
        let mut b_vectors = [v.splat(0.0); NR_VECTORS];
        for vector in 0..NR_VECTORS {
            b_vectors[vector] = v.load(&b[vector]);
        }
        for row in 0..MR {
            let factor = v.splat(a[row]);
            for vector in 0..NR_VECTORS {
                sums[row][vector] = v.mul_add(factor, b_vectors[vector], sums[row][vector]);
            }
        }
    }
    sums
}

/// Where a register tile goes in the output, and whether it is added to what is there.
#[derive(Clone, Copy)]
pub(super) struct OutputTile {
    pub first: usize,
    pub stride: usize,
    pub rows: usize,
    pub columns: usize,
    pub accumulate: bool,
}

impl OutputTile {
    /// Prefetches the output tile while the micro-kernel runs, so that the store does not wait for it.
    #[inline(always)]
    pub fn prefetch(&self, out: &DisjointSlice<f32>) {
        for row in 0..self.rows {
            for column in (0..self.columns).step_by(LANES) {
                out.prefetch(self.first + row * self.stride + column);
            }
        }
    }
}

/// Stores a register tile, clipped to the output.
///
/// # Safety
///
/// No other thread accesses this tile of the output.
#[inline(always)]
pub(super) unsafe fn store_tile<V: Vector, const MR: usize, const NR_VECTORS: usize>(
    v: V,
    sums: &[[V::F; NR_VECTORS]; MR],
    out: &DisjointSlice<f32>,
    target: OutputTile,
) {
    for (row, sums) in sums.iter().enumerate().take(target.rows) {
        let first = target.first + row * target.stride;
        // SAFETY: the caller has exclusive access to this tile.
        let out = unsafe { out.slice_mut(first..first + target.columns) };
        let (whole, rest) = out.as_chunks_mut::<LANES>();
        for (out, sum) in whole.iter_mut().zip(sums) {
            let value = match target.accumulate {
                true => v.add(*sum, v.load(out)),
                false => *sum,
            };
            v.store(value, out);
        }
        if let Some(sum) = sums.get(whole.len()) {
            let mut lanes = [0.0; LANES];
            v.store(*sum, &mut lanes);
            for (out, lane) in rest.iter_mut().zip(lanes) {
                *out = if target.accumulate { *out + lane } else { lane };
            }
        }
    }
}
