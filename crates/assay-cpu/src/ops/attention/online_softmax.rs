//! Online softmax (Milakov and Gimelshein 2018) for one query, as in FlashAttention.
//!
//! Scores of a tile of keys become weights relative to the running maximum; when the maximum grows,
//! the accumulator is rescaled. No buffer is as long as the context.

use crate::ops::element::{self, Load};
use crate::ops::softmax::{exponentials, largest, scale};
use crate::simd::{LANES, Vector, load_partial, store_partial};

/// Keys of a tile.
pub(super) const KV_TILE: usize = 64;

/// The state of the online softmax for one query: accumulator, running maximum and sum.
pub(super) struct OnlineSoftmax<'a> {
    /// The weighted sum of values, relative to `max`.
    pub out: &'a mut [f32],
    pub max: f32,
    pub sum: f32,
}

impl<'a> OnlineSoftmax<'a> {
    #[inline(always)]
    pub fn new(out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        OnlineSoftmax { out, max: f32::NEG_INFINITY, sum: 0.0 }
    }

    /// Adds at most `KV_TILE` keys; `score(i)` is the scaled score of the i-th, and `value(i)` its row.
    #[inline(always)]
    pub fn update<'b, V: Vector, T: Load>(
        &mut self,
        v: V,
        count: usize,
        score: impl Fn(usize) -> f32,
        value: impl Fn(usize) -> &'b [T],
    ) {
        let mut scores = [0.0; KV_TILE];
        let scores = &mut scores[..count];
        for (index, slot) in scores.iter_mut().enumerate() {
            *slot = score(index);
        }
        // The maximum ignores NaN; the sum below propagates it.
        let max = largest(v, scores).max(self.max);
        if max > self.max {
            let rescale = (self.max - max).exp();
            scale(v, self.out, rescale);
            self.sum *= rescale;
            self.max = max;
        }
        if self.max == f32::NEG_INFINITY {
            // All scores are minus infinity: their weights are zero, and the difference would be NaN.
            return;
        }
        self.sum += exponentials(v, scores, self.max);
        for (index, score) in scores.iter().enumerate() {
            add_scaled(v, self.out, value(index), *score);
        }
    }

    #[inline(always)]
    pub fn finish<V: Vector>(self, v: V) {
        scale(v, self.out, 1.0 / self.sum);
    }
}

/// Adds a scaled row.
#[inline(always)]
fn add_scaled<V: Vector, T: Load>(v: V, out: &mut [f32], row: &[T], factor: f32) {
    let factor = v.splat(factor);
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    let (row_whole, row_rest) = row.as_chunks::<LANES>();
    for (out, row) in whole.iter_mut().zip(row_whole) {
        v.store(v.mul_add(T::load(v, row), factor, v.load(out)), out);
    }
    if !rest.is_empty() {
        let sum = v.mul_add(element::load_partial(v, row_rest), factor, load_partial(v, rest, 0.0));
        store_partial(v, sum, rest);
    }
}
