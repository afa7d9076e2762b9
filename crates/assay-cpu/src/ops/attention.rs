//! What both attentions share: one query over some keys, with a running softmax.
//!
//! Scores of a block of keys are turned into weights relative to the largest score so far; when a
//! larger one comes, what was gathered is scaled down. Nothing as long as the context is kept.

use super::element::{self, Element};
use super::softmax::{exponentials, largest, scale};
use crate::simd::{LANES, Vector, load_part, store_part};

/// Keys whose scores are held at a time.
pub(super) const BLOCK: usize = 64;

/// The softmax-weighted sum of values so far, for one query.
pub(super) struct Running<'a> {
    /// The sum, relative to `largest`.
    pub out: &'a mut [f32],
    pub largest: f32,
    pub weight: f32,
}

impl<'a> Running<'a> {
    #[inline(always)]
    pub fn new(out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        Running {
            out,
            largest: f32::NEG_INFINITY,
            weight: 0.0,
        }
    }

    /// Takes in at most `BLOCK` keys: `key(i)` and `value(i)` are the rows of the i-th.
    #[inline(always)]
    pub fn take<'b, V: Vector, T: Element>(
        &mut self,
        v: V,
        query: &[f32],
        factor: f32,
        count: usize,
        key: impl Fn(usize) -> &'b [T],
        value: impl Fn(usize) -> &'b [T],
    ) {
        let mut scores = [0.0; BLOCK];
        let scores = &mut scores[..count];
        for (index, score) in scores.iter_mut().enumerate() {
            *score = element::dot(v, key(index), query) * factor;
        }
        // Passes over what is not a number; the sum below does not.
        let most = largest(v, scores).max(self.largest);
        if most > self.largest {
            let shrink = (self.largest - most).exp();
            scale(v, self.out, shrink);
            self.weight *= shrink;
            self.largest = most;
        }
        if self.largest == f32::NEG_INFINITY {
            // Every score is minus infinity: their weights are zero, and a distance is not a number.
            return;
        }
        self.weight += exponentials(v, scores, self.largest);
        for (index, score) in scores.iter().enumerate() {
            add_scaled(v, self.out, value(index), *score);
        }
    }

    #[inline(always)]
    pub fn finish<V: Vector>(self, v: V) {
        scale(v, self.out, 1.0 / self.weight);
    }
}

/// Adds a row times a number.
#[inline(always)]
fn add_scaled<V: Vector, T: Element>(v: V, out: &mut [f32], row: &[T], factor: f32) {
    let factor = v.splat(factor);
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    let (row_whole, row_rest) = row.as_chunks::<LANES>();
    for (out, row) in whole.iter_mut().zip(row_whole) {
        v.store(v.mul_add(T::load(v, row), factor, v.load(out)), out);
    }
    if !rest.is_empty() {
        let sum = v.mul_add(
            element::load_part(v, row_rest),
            factor,
            load_part(v, rest, 0.0),
        );
        store_part(v, sum, rest);
    }
}
