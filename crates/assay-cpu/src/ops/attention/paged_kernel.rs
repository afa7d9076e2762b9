//! The paged attention kernel: a tile of queries of one sequence over its context.

use super::kv_cache::CacheShape;
use super::shape::{AttentionShape, ScoreOptions};
use crate::ops::cache_element::CacheLoad;
use crate::ops::element;
use crate::ops::softmax::{exponentials, largest, scale};
use crate::simd::{Kernel, LANES, Vector, load_partial, store_partial, tanh};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Tokens of a KV tile.
pub(super) const KV_TILE: usize = 64;
/// The most queries of a tile: they share the keys that are in cache.
pub(super) const MAX_QUERY_TILE: usize = 32;

/// Queries of one sequence that share a KV head.
///
/// Query i is head i % group of row i / group.
pub(crate) struct PagedTile<'a, T> {
    pub(super) shape: AttentionShape,
    pub(super) options: ScoreOptions<'a>,
    pub(super) cache: CacheShape,
    pub(super) query: &'a [f32],
    pub(super) keys: &'a [T],
    pub(super) values: &'a [T],
    pub(super) blocks: &'a [i32],
    pub(super) rows: Range<usize>,
    pub(super) seq_len: usize,
    pub(super) kv_head: usize,
    pub(super) queries: Range<usize>,
    /// The range of tokens to attend to.
    pub(super) tokens: Range<usize>,
    /// The offset of the partial result of a split; `None` where the tile covers the whole context.
    pub(super) partial: Option<usize>,
    pub(super) out: &'a DisjointSlice<'a, f32>,
}

/// One query: its offsets, the number of visible tokens, and its online softmax.
#[derive(Clone, Copy, Default)]
struct QueryState {
    query: usize,
    out: usize,
    head: usize,
    /// The first visible token.
    first: usize,
    /// The end of the visible tokens.
    visible: usize,
    largest: f32,
    weight: f32,
}

/// Adjacent tokens of one block, at most sixteen.
#[derive(Clone, Copy, Default)]
struct TokenRun {
    /// The head's offset in the block, in either cache.
    at: usize,
    /// The first token's index in the block.
    offset: usize,
    tokens: usize,
}

/// The tokens of a KV tile as runs.
struct TokenRuns {
    runs: [TokenRun; KV_TILE],
    count: usize,
    tokens: usize,
}

impl<T: CacheLoad> Kernel for PagedTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        // Divisions are slow: offsets are computed once, not for every KV tile.
        let mut states = [QueryState::default(); MAX_QUERY_TILE];
        let states = &mut states[..self.queries.len()];
        let group = self.shape.group();
        for (states, query) in states.iter_mut().zip(self.queries.clone()) {
            let (row, head) = (query / group, self.kv_head * group + query % group);
            let row_head = (self.rows.start + row) * self.shape.heads + head;
            let query = row_head * self.shape.head_size;
            let visible = (self.seq_len + row + 1).saturating_sub(self.rows.len());
            *states = QueryState {
                query,
                out: match self.partial {
                    None => query,
                    Some(first) => first + head * (self.shape.head_size + 2),
                },
                head,
                first: self.options.first_visible(visible),
                visible,
                largest: f32::NEG_INFINITY,
                weight: 0.0,
            };
            self.out(states).fill(0.0);
        }
        if self.seq_len == 0 {
            return;
        }
        let longest = states.last().map_or(0, |last| last.visible);
        let end = longest.min(self.tokens.end);
        // Tiles before every query's window are skipped; the others stay where they are, so that a
        // query's result does not depend on the rest of its tile.
        let skipped = states.first().map_or(0, |first| first.first) / KV_TILE * KV_TILE;
        for start in (self.tokens.start.max(skipped)..end).step_by(KV_TILE) {
            let runs = self.runs(start, end.min(start + KV_TILE));
            let (fours, rest) = states.as_chunks_mut::<4>();
            for four in fours {
                self.update(v, start, &runs, four);
            }
            let (twos, rest) = rest.as_chunks_mut::<2>();
            for two in twos {
                self.update(v, start, &runs, two);
            }
            for one in rest.as_chunks_mut::<1>().0 {
                self.update(v, start, &runs, one);
            }
        }
        for states in states {
            if self.partial.is_none() {
                let factor = match self.options.sinks {
                    None => 1.0 / states.weight,
                    Some(sinks) => sink_factor(states.largest, states.weight, sinks[states.head]),
                };
                scale(v, self.out(states), factor);
                continue;
            }
            let ends = states.out + self.shape.head_size;
            // SAFETY: each task has its own records.
            let ends = unsafe { self.out.slice_mut(ends..ends + 2) };
            ends.copy_from_slice(&[states.largest, states.weight]);
        }
    }
}

/// Bounds scores: cap * tanh(score / cap).
#[inline(always)]
fn soften<V: Vector>(v: V, scores: &mut [f32], cap: f32) {
    let bounded = |x: V::F| v.mul(v.splat(cap), tanh(v, v.mul(x, v.splat(1.0 / cap))));
    let (whole, rest) = scores.as_chunks_mut::<LANES>();
    for lanes in whole {
        v.store(bounded(v.load(lanes)), lanes);
    }
    if !rest.is_empty() {
        let last = bounded(load_partial(v, rest, 0.0));
        store_partial(v, last, rest);
    }
}

/// One over the sum of weights with a sink's, for weights relative to `largest`.
fn sink_factor(largest: f32, weight: f32, sink: f32) -> f32 {
    let most = largest.max(sink);
    let rescale = (largest - most).exp();
    rescale / (weight * rescale + (sink - most).exp())
}

impl<T: CacheLoad> PagedTile<'_, T> {
    // The borrow is of the output, of which each task has its own queries.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    fn out(&self, states: &QueryState) -> &mut [f32] {
        let range = states.out..states.out + self.shape.head_size;
        // SAFETY: each task has its own rows and heads, and borrows one query at a time.
        unsafe { self.out.slice_mut(range) }
    }

    /// The runs of tokens `start..end`.
    #[inline(always)]
    fn runs(&self, start: usize, end: usize) -> TokenRuns {
        let mut found =
            TokenRuns { runs: [TokenRun::default(); KV_TILE], count: 0, tokens: end - start };
        let (mut block, mut offset) =
            (start / self.cache.block_size, start % self.cache.block_size);
        let mut token = start;
        while token < end {
            let here = self.cache.block_size - offset;
            let run = TokenRun {
                at: self.cache.at::<T>(self.blocks[block] as usize, self.kv_head),
                offset,
                tokens: LANES.min(here).min(end - token),
            };
            found.runs[found.count] = run;
            found.count += 1;
            token += run.tokens;
            offset += run.tokens;
            if offset == self.cache.block_size {
                (block, offset) = (block + 1, 0);
            }
        }
        found
    }

    /// Updates some queries with one KV tile.
    #[inline(always)]
    fn update<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        start: usize,
        runs: &TokenRuns,
        states: &mut [QueryState; QUERIES],
    ) {
        // Later queries see at least as many tokens.
        let visible = states[QUERIES - 1].visible.saturating_sub(start);
        let tokens_visible = visible.min(runs.tokens);
        if tokens_visible == 0 {
            return;
        }
        let mut scores = [[0.0; KV_TILE]; QUERIES];
        let mut token = 0;
        if self.cache.block_size == LANES && runs.count == KV_TILE / LANES {
            self.scores_of_whole_blocks(v, runs, states, &mut scores);
            token = KV_TILE;
        }
        for run in &runs.runs[..runs.count] {
            if token >= tokens_visible {
                break;
            }
            let sums = self.scores(v, run, states);
            for (scores, sum) in scores.iter_mut().zip(sums) {
                match scores[token..].first_chunk_mut::<LANES>() {
                    Some(lanes) => v.store(sum, lanes),
                    None => store_partial(v, sum, &mut scores[token..token + run.tokens]),
                }
            }
            token += run.tokens;
        }
        self.multiply_by_scales(self.keys, runs, tokens_visible, &mut scores);
        for (states, scores) in states.iter_mut().zip(&mut scores) {
            let count = states.visible.saturating_sub(start).min(tokens_visible);
            let first = states.first.saturating_sub(start).min(count);
            self.update_softmax(v, start, &mut scores[..tokens_visible], first..count, states);
        }
        self.multiply_by_scales(self.values, runs, tokens_visible, &mut scores);
        let mut from = 0;
        while from < self.shape.head_size {
            from += match self.shape.head_size - from {
                64.. => {
                    self.add_values::<V, QUERIES, 4>(v, from, runs, tokens_visible, &scores, states)
                }
                16.. => {
                    self.add_values::<V, QUERIES, 1>(v, from, runs, tokens_visible, &scores, states)
                }
                _ => self.add_values_tail(v, from, runs, tokens_visible, &scores, states),
            };
        }
    }

    /// Multiplies what was computed from the codes of tokens by their scales, where they have some.
    #[inline(always)]
    fn multiply_by_scales<const QUERIES: usize>(
        &self,
        cache: &[T],
        runs: &TokenRuns,
        tokens: usize,
        scores: &mut [[f32; KV_TILE]; QUERIES],
    ) {
        if T::SCALE_ELEMENTS == 0 {
            return;
        }
        let mut token = 0;
        for run in &runs.runs[..runs.count] {
            let count = run.tokens.min(tokens - token);
            for index in 0..count {
                let at = run.at + self.cache.scale_at::<T>(run.offset + index);
                let factor = T::load_scale(&cache[at..at + T::SCALE_ELEMENTS]);
                for scores in scores.iter_mut() {
                    scores[token + index] *= factor;
                }
            }
            token += count;
        }
    }

    /// Scores of a KV tile that consists of whole blocks: enough accumulators to hide latency.
    #[inline(always)]
    fn scores_of_whole_blocks<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        runs: &TokenRuns,
        states: &[QueryState; QUERIES],
        scores: &mut [[f32; KV_TILE]; QUERIES],
    ) {
        let head_size = self.shape.head_size;
        let query: [&[f32]; QUERIES] =
            std::array::from_fn(|index| &self.query[states[index].query..][..head_size]);
        let lines: [&[[T; LANES]]; KV_TILE / LANES] = std::array::from_fn(|run| {
            let panel = &self.keys[runs.runs[run].at..][..head_size * LANES];
            panel.as_chunks::<LANES>().0
        });
        let mut sums = [[v.splat(0.0); KV_TILE / LANES]; QUERIES];
        for number in 0..head_size {
            let mut keys = [v.splat(0.0); KV_TILE / LANES];
            for run in 0..KV_TILE / LANES {
                keys[run] = T::load(v, &lines[run][number]);
            }
            for index in 0..QUERIES {
                let query = v.splat(query[index][number]);
                for run in 0..KV_TILE / LANES {
                    sums[index][run] = v.mul_add(query, keys[run], sums[index][run]);
                }
            }
        }
        for index in 0..QUERIES {
            let lanes = scores[index].as_chunks_mut::<LANES>().0;
            for run in 0..KV_TILE / LANES {
                v.store(sums[index][run], &mut lanes[run]);
            }
        }
    }

    /// Scores of the keys of a run, one key per lane.
    #[inline(always)]
    fn scores<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        run: &TokenRun,
        states: &[QueryState; QUERIES],
    ) -> [V::F; QUERIES] {
        let (head_size, block_size) = (self.shape.head_size, self.cache.block_size);
        let query: [&[f32]; QUERIES] =
            std::array::from_fn(|index| &self.query[states[index].query..][..head_size]);
        let panel = &self.keys[run.at..][..self.cache.panel()];
        let mut sums = [v.splat(0.0); QUERIES];
        if block_size == LANES {
            for (number, line) in panel.as_chunks::<LANES>().0[..head_size].iter().enumerate() {
                let keys = T::load(v, line);
                for index in 0..QUERIES {
                    let query = v.splat(query[index][number]);
                    sums[index] = v.mul_add(query, keys, sums[index]);
                }
            }
            return sums;
        }
        for (number, line) in panel.chunks_exact(block_size).enumerate() {
            let line = &line[run.offset..];
            let keys = match line.first_chunk::<LANES>() {
                Some(lanes) => T::load(v, lanes),
                None => element::load_partial(v, line),
            };
            for index in 0..QUERIES {
                let query = v.splat(query[index][number]);
                sums[index] = v.mul_add(query, keys, sums[index]);
            }
        }
        sums
    }

    /// Online softmax: converts scores to weights relative to the running maximum, and rescales the
    /// accumulator when the maximum grows.
    #[inline(always)]
    fn update_softmax<V: Vector>(
        &self,
        v: V,
        start: usize,
        scores: &mut [f32],
        visible: Range<usize>,
        states: &mut QueryState,
    ) {
        let first = start + visible.start;
        let (rest, hidden) = scores.split_at_mut(visible.end);
        hidden.fill(0.0);
        let (hidden, visible) = rest.split_at_mut(visible.start);
        hidden.fill(0.0);
        scale(v, visible, self.shape.scale);
        if self.options.softcap > 0.0 {
            soften(v, visible, self.options.softcap);
        }
        if let Some(slopes) = self.options.alibi_slopes {
            let slope = slopes[states.head];
            for (token, score) in visible.iter_mut().enumerate() {
                let distance = states.visible - 1 - (first + token);
                *score -= slope * distance as f32;
            }
        }
        // The maximum ignores NaN; the sum below propagates it.
        let tokens_visible = largest(v, visible).max(states.largest);
        if tokens_visible > states.largest {
            let rescale = (states.largest - tokens_visible).exp();
            scale(v, self.out(states), rescale);
            states.weight *= rescale;
            states.largest = tokens_visible;
        }
        if tokens_visible == f32::NEG_INFINITY {
            // All scores are minus infinity: their weights are zero, and the difference would be NaN.
            visible.fill(0.0);
            return;
        }
        states.weight += exponentials(v, visible, tokens_visible);
    }

    /// Adds weighted values to `VECTORS` vectors of the accumulators, from element `from` of the head
    /// on; returns how many elements those are.
    #[inline(always)]
    fn add_values<V: Vector, const QUERIES: usize, const VECTORS: usize>(
        &self,
        v: V,
        from: usize,
        runs: &TokenRuns,
        tokens: usize,
        scores: &[[f32; KV_TILE]; QUERIES],
        states: &[QueryState; QUERIES],
    ) -> usize {
        let head_size = self.shape.head_size;
        let mut sums = [[v.splat(0.0); VECTORS]; QUERIES];
        for query in 0..QUERIES {
            let lanes = self.out(&states[query])[from..].as_chunks::<LANES>().0;
            for vector in 0..VECTORS {
                sums[query][vector] = v.load(&lanes[vector]);
            }
        }
        let mut token = 0;
        for run in &runs.runs[..runs.count] {
            let count = run.tokens.min(tokens - token);
            let rows = &self.values[run.at + run.offset * head_size..];
            let rows = rows[..count * head_size].chunks_exact(head_size);
            for (index, row) in rows.enumerate() {
                let lanes = &row[from..].as_chunks::<LANES>().0[..VECTORS];
                let mut values = [v.splat(0.0); VECTORS];
                for vector in 0..VECTORS {
                    values[vector] = T::load(v, &lanes[vector]);
                }
                for query in 0..QUERIES {
                    let weight = v.splat(scores[query][token + index]);
                    for vector in 0..VECTORS {
                        sums[query][vector] =
                            v.mul_add(values[vector], weight, sums[query][vector]);
                    }
                }
            }
            token += count;
        }
        for query in 0..QUERIES {
            let lanes = self.out(&states[query])[from..].as_chunks_mut::<LANES>().0;
            for vector in 0..VECTORS {
                v.store(sums[query][vector], &mut lanes[vector]);
            }
        }
        VECTORS * LANES
    }

    /// The same for the last elements of a head, which do not fill a vector.
    #[inline(always)]
    fn add_values_tail<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        from: usize,
        runs: &TokenRuns,
        tokens: usize,
        scores: &[[f32; KV_TILE]; QUERIES],
        states: &[QueryState; QUERIES],
    ) -> usize {
        let head_size = self.shape.head_size;
        for (states, scores) in states.iter().zip(scores) {
            let out = &mut self.out(states)[from..];
            let mut sum = load_partial(v, out, 0.0);
            let mut token = 0;
            for run in &runs.runs[..runs.count] {
                let count = run.tokens.min(tokens - token);
                for index in 0..count {
                    let at = run.at + (run.offset + index) * head_size;
                    let values = element::load_partial(v, &self.values[at + from..at + head_size]);
                    sum = v.mul_add(values, v.splat(scores[token + index]), sum);
                }
                token += count;
            }
            store_partial(v, sum, out);
        }
        head_size - from
    }
}
