//! The prefill kernel: a tile of queries of one head over all keys it may see.

use super::online_softmax::{KV_TILE, OnlineSoftmax};
use super::shape::AttentionShape;
use crate::ops::element::{Load, dot};
use crate::simd::{Kernel, Vector, prefetch};
use crate::threads::DisjointSlice;

/// Queries of a tile: they share the keys that are in cache.
pub(super) const QUERY_TILE: usize = 16;

/// Queries up to which rows are prefetched: more of them read a row from a cache.
const FEW_QUERIES: usize = 8;
/// How many rows ahead: those of a head are apart, which the hardware prefetcher does not follow.
const AHEAD: usize = 16;

pub(crate) struct PrefillTile<'a, T> {
    pub(super) shape: AttentionShape,
    pub(super) query: &'a [f32],
    pub(super) key: &'a [T],
    pub(super) value: &'a [T],
    pub(super) first: usize,
    pub(super) last: usize,
    /// Keys before the first query.
    pub(super) before: usize,
    pub(super) keys: usize,
    pub(super) causal: bool,
    pub(super) head: usize,
    pub(super) out: &'a DisjointSlice<'a, f32>,
}

impl<'a, T: Load> Kernel for PrefillTile<'a, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let AttentionShape { heads, kv_heads, head_size, scale } = self.shape;
        let kv_head = self.head / self.shape.group();
        let mut states: [Option<OnlineSoftmax>; QUERY_TILE] = std::array::from_fn(|index| {
            let start = ((self.first + index) * heads + self.head) * head_size;
            (self.first + index < self.last).then(|| {
                // SAFETY: each task has its own queries and head.
                OnlineSoftmax::new(unsafe { self.out.slice_mut(start..start + head_size) })
            })
        });
        let seen = |row: usize| match self.causal {
            true => self.before + row + 1,
            false => self.keys,
        };
        let visible = seen(self.last - 1);
        let few = self.last - self.first <= FEW_QUERIES;
        for block in (0..visible).step_by(KV_TILE) {
            for (index, states) in states.iter_mut().enumerate() {
                let Some(states) = states else { break };
                let count = seen(self.first + index).saturating_sub(block).min(KV_TILE);
                if count == 0 {
                    continue;
                }
                let start = ((self.first + index) * heads + self.head) * head_size;
                let query = &self.query[start..start + head_size];
                let place = |key: usize| ((block + key) * kv_heads + kv_head) * head_size;
                let row = |rows: &'a [T], key: usize| {
                    if few {
                        prefetch_row(rows, place(key + AHEAD), head_size);
                    }
                    &rows[place(key)..place(key) + head_size]
                };
                states.update(
                    v,
                    count,
                    |key| dot(v, row(self.key, key), query) * scale,
                    |key| row(self.value, key),
                );
            }
        }
        for states in states.into_iter().flatten() {
            states.finish(v);
        }
    }
}

/// Prefetches a row; it may be past the last one.
#[inline(always)]
fn prefetch_row<T>(rows: &[T], first: usize, length: usize) {
    let line = 64 / size_of::<T>();
    for at in (first..first + length).step_by(line.max(1)) {
        prefetch(rows.as_ptr().wrapping_add(at));
    }
}
