//! What attention on AMX tiles takes and writes, in single precision and in bfloat16.

use super::shape::AttentionShape;
use crate::ops::softmax::{exponentials, largest};
use crate::simd::{LANES, SPLIT_SIDE, TILE_K, TileC, Vector};
use crate::threads::DisjointSlice;

/// Queries, and keys, from which packing pays off.
const LEAST: usize = 32;
/// Keys whose scores and weights for a tile of queries stay in L2.
const MOST_KEYS: usize = 4_096;

/// Queries, keys and values; bits of bfloat16 are numbers of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a, T> {
    pub shape: AttentionShape,
    pub query: &'a [f32],
    pub key: &'a [T],
    pub value: &'a [T],
}

impl<'a, T> Operands<'a, T> {
    pub fn queries(&self) -> usize {
        self.query.len() / (self.shape.heads * self.shape.head_size)
    }

    pub fn keys(&self) -> usize {
        self.key.len() / (self.shape.kv_heads * self.shape.head_size)
    }

    /// Whether heads fill tiles, and queries and keys are as many as pay off.
    pub fn fit_tiles(&self) -> bool {
        self.shape.head_size.is_multiple_of(TILE_K)
            && self.queries() >= LEAST
            && (LEAST..=MOST_KEYS).contains(&self.keys())
    }

    pub fn query_row(&self, head: usize, row: usize) -> &'a [f32] {
        let AttentionShape { heads, head_size, .. } = self.shape;
        &self.query[(row * heads + head) * head_size..][..head_size]
    }

    pub fn key_row(&self, head: usize, row: usize) -> &'a [T] {
        self.row(self.key, head, row)
    }

    pub fn value_row(&self, head: usize, row: usize) -> &'a [T] {
        self.row(self.value, head, row)
    }

    fn row(&self, rows: &'a [T], head: usize, row: usize) -> &'a [T] {
        let AttentionShape { kv_heads, head_size, .. } = self.shape;
        &rows[(row * kv_heads + head) * head_size..][..head_size]
    }
}

/// Stores the products of 32 queries with block `block` of 32 keys into rows of scores.
#[inline(always)]
pub(super) fn store_scores<V: Vector>(v: V, sums: &[TileC; 4], block: usize, scores: &mut [f32]) {
    let width = scores.len() / SPLIT_SIDE;
    for (row, scores) in scores.chunks_exact_mut(width).enumerate() {
        let scores = &mut scores[block * SPLIT_SIDE..(block + 1) * SPLIT_SIDE];
        for (side, scores) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            v.store(v.load(&sums[row / LANES * 2 + side].0[row % LANES]), scores);
        }
    }
}

/// Makes exponentials of a row of scores, of which `keys` count; returns what they are to be divided by, inverted.
#[inline(always)]
pub(super) fn weigh<V: Vector>(v: V, scores: &mut [f32], keys: usize) -> f32 {
    let (scores, padding) = scores.split_at_mut(keys);
    let most = largest(v, scores);
    padding.fill(0.0);
    1.0 / exponentials(v, scores, most)
}

/// Where the 32 queries of a tile and a head are.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub shape: AttentionShape,
    pub head: usize,
    pub first: usize,
}

impl Place {
    /// Writes part `part` of 32 elements of each query's result: sums of weighted values times its share.
    ///
    /// # Safety
    ///
    /// No other thread may write these queries of this head.
    #[inline(always)]
    pub unsafe fn store_sums<V: Vector>(
        self,
        v: V,
        sums: &[TileC; 4],
        shares: &[f32],
        part: usize,
        out: &DisjointSlice<'_, f32>,
    ) {
        let AttentionShape { heads, head_size, .. } = self.shape;
        for (row, share) in shares.iter().enumerate() {
            let start = ((self.first + row) * heads + self.head) * head_size + part * SPLIT_SIDE;
            // SAFETY: the caller guarantees it.
            let out = unsafe { out.slice_mut(start..start + SPLIT_SIDE) };
            for (side, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let sum = v.load(&sums[row / LANES * 2 + side].0[row % LANES]);
                v.store(v.mul(sum, v.splat(*share)), out);
            }
        }
    }
}
