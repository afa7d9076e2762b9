//! The latent attention kernel: some heads of one query over its context.

use super::online_softmax::{KV_TILE, OnlineSoftmax};
use super::shape::LatentShape;
use crate::ops::element::{Load, dot};
use crate::simd::{Kernel, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// The most heads of a tile.
pub(super) const MAX_HEAD_TILE: usize = 16;

pub(crate) struct LatentTile<'a, T> {
    pub(super) shape: LatentShape,
    pub(super) q_latent: &'a [f32],
    pub(super) q_rope: &'a [f32],
    pub(super) cache: &'a [T],
    /// The sequence's block table.
    pub(super) blocks: &'a [i32],
    pub(super) row: usize,
    /// Tokens that the query sees; 0 gives zeros.
    pub(super) visible: usize,
    pub(super) heads: Range<usize>,
    pub(super) out: &'a DisjointSlice<'a, f32>,
}

impl<T: Load> Kernel for LatentTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let LatentShape { heads, rank, rotary_dim, block_size, scale } = self.shape;
        let head = |index: usize| self.row * heads + self.heads.start + index;
        let mut states: [Option<OnlineSoftmax>; MAX_HEAD_TILE] = std::array::from_fn(|index| {
            (index < self.heads.len()).then(|| {
                let start = head(index) * rank;
                // SAFETY: each task has its own row and heads.
                OnlineSoftmax::new(unsafe { self.out.slice_mut(start..start + rank) })
            })
        });
        if self.visible == 0 {
            return;
        }
        let width = self.shape.width();
        for start in (0..self.visible).step_by(KV_TILE) {
            let count = KV_TILE.min(self.visible - start);
            let mut rows = [0; KV_TILE];
            for (index, at) in rows[..count].iter_mut().enumerate() {
                let token = start + index;
                let block = self.blocks[token / block_size] as usize;
                *at = (block * block_size + token % block_size) * width;
            }
            for (index, states) in states.iter_mut().enumerate() {
                let Some(states) = states else { break };
                let latent = &self.q_latent[head(index) * rank..][..rank];
                let rotary = &self.q_rope[head(index) * rotary_dim..][..rotary_dim];
                states.update(
                    v,
                    count,
                    |token| {
                        let (value, key) = self.cache[rows[token]..][..width].split_at(rank);
                        (dot(v, value, latent) + dot(v, key, rotary)) * scale
                    },
                    |token| &self.cache[rows[token]..][..rank],
                );
            }
        }
        for states in states.into_iter().flatten() {
            states.finish(v);
        }
    }
}
