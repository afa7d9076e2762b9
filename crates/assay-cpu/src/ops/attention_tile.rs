//! Some queries of one sequence over its keys and values: the work of one core at a time.

use super::element::{self, Element};
use super::softmax::{exponentials, largest, scale};
use super::{AttentionShape, CacheShape};
use crate::simd::{Kernel, LANES, Vector, load_part, store_part};
use crate::threads::Disjoint;
use std::ops::Range;

/// Tokens whose scores are held at a time.
pub(super) const SPAN: usize = 64;
/// Most queries of a part: they read the same keys while those are in the cache.
pub(super) const MOST_QUERIES: usize = 32;

/// Some queries of one sequence that share a head of keys.
///
/// Query i is head i % group of row i / group.
pub(crate) struct Tile<'a, T> {
    pub(super) shape: AttentionShape,
    pub(super) cache: CacheShape,
    pub(super) query: &'a [f32],
    pub(super) keys: &'a [T],
    pub(super) values: &'a [T],
    pub(super) blocks: &'a [i32],
    pub(super) rows: Range<usize>,
    pub(super) length: usize,
    pub(super) kv_head: usize,
    pub(super) queries: Range<usize>,
    /// Tokens whose keys and values are read.
    pub(super) tokens: Range<usize>,
    /// Where the sums of a part of the context go, in records of each head; none where the tile
    /// has all of it.
    pub(super) partial: Option<usize>,
    pub(super) out: &'a Disjoint<'a, f32>,
}

/// One query on its way: where its numbers are, what it sees, and its softmax so far.
#[derive(Clone, Copy, Default)]
struct Running {
    query: usize,
    out: usize,
    seen: usize,
    largest: f32,
    weight: f32,
}

/// Neighboring tokens of one block, at most a vector of them.
#[derive(Clone, Copy, Default)]
struct Piece {
    /// Where the head's numbers begin in the block, in either cache.
    at: usize,
    /// The first token's place in the block.
    offset: usize,
    tokens: usize,
}

/// The tokens of a span, piece by piece.
struct Pieces {
    pieces: [Piece; SPAN],
    count: usize,
    tokens: usize,
}

impl<T: Element> Kernel for Tile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        // Divisions are slow: places are found once, not in every span.
        let mut running = [Running::default(); MOST_QUERIES];
        let running = &mut running[..self.queries.len()];
        let group = self.shape.group();
        for (running, query) in running.iter_mut().zip(self.queries.clone()) {
            let (row, head) = (query / group, self.kv_head * group + query % group);
            let place = (self.rows.start + row) * self.shape.heads + head;
            let query = place * self.shape.head_size;
            *running = Running {
                query,
                out: match self.partial {
                    None => query,
                    Some(first) => first + head * (self.shape.head_size + 2),
                },
                seen: (self.length + row + 1).saturating_sub(self.rows.len()),
                largest: f32::NEG_INFINITY,
                weight: 0.0,
            };
            self.out(running).fill(0.0);
        }
        if self.length == 0 {
            return;
        }
        let longest = running.last().map_or(0, |last| last.seen);
        let end = longest.min(self.tokens.end);
        for start in (self.tokens.start..end).step_by(SPAN) {
            let pieces = self.pieces(start, end.min(start + SPAN));
            let (fours, rest) = running.as_chunks_mut::<4>();
            for four in fours {
                self.span(v, start, &pieces, four);
            }
            let (twos, rest) = rest.as_chunks_mut::<2>();
            for two in twos {
                self.span(v, start, &pieces, two);
            }
            for one in rest.as_chunks_mut::<1>().0 {
                self.span(v, start, &pieces, one);
            }
        }
        for running in running {
            if self.partial.is_none() {
                scale(v, self.out(running), 1.0 / running.weight);
                continue;
            }
            let ends = running.out + self.shape.head_size;
            // SAFETY: each part has its own records.
            let ends = unsafe { self.out.part(ends..ends + 2) };
            ends.copy_from_slice(&[running.largest, running.weight]);
        }
    }
}

impl<T: Element> Tile<'_, T> {
    // The borrow is of the output behind, of which a part has its own queries.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    fn out(&self, running: &Running) -> &mut [f32] {
        let range = running.out..running.out + self.shape.head_size;
        // SAFETY: each part has its own rows and heads, and looks at one query at a time.
        unsafe { self.out.part(range) }
    }

    /// Where the tokens from `start` to `end` are.
    #[inline(always)]
    fn pieces(&self, start: usize, end: usize) -> Pieces {
        let mut found = Pieces {
            pieces: [Piece::default(); SPAN],
            count: 0,
            tokens: end - start,
        };
        let (mut block, mut offset) =
            (start / self.cache.block_size, start % self.cache.block_size);
        let mut token = start;
        while token < end {
            let here = self.cache.block_size - offset;
            let piece = Piece {
                at: self.cache.at(self.blocks[block] as usize, self.kv_head),
                offset,
                tokens: LANES.min(here).min(end - token),
            };
            found.pieces[found.count] = piece;
            found.count += 1;
            token += piece.tokens;
            offset += piece.tokens;
            if offset == self.cache.block_size {
                (block, offset) = (block + 1, 0);
            }
        }
        found
    }

    /// Takes some queries over one span of tokens.
    #[inline(always)]
    fn span<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        start: usize,
        pieces: &Pieces,
        running: &mut [Running; QUERIES],
    ) {
        // Later queries see no fewer.
        let seen = running[QUERIES - 1].seen.saturating_sub(start);
        let most = seen.min(pieces.tokens);
        if most == 0 {
            return;
        }
        let mut scores = [[0.0; SPAN]; QUERIES];
        let mut token = 0;
        if self.cache.block_size == LANES && pieces.count == SPAN / LANES {
            self.whole_scores(v, pieces, running, &mut scores);
            token = SPAN;
        }
        for piece in &pieces.pieces[..pieces.count] {
            if token >= most {
                break;
            }
            let sums = self.scores(v, piece, running);
            for (scores, sum) in scores.iter_mut().zip(sums) {
                match scores[token..].first_chunk_mut::<LANES>() {
                    Some(lanes) => v.store(sum, lanes),
                    None => store_part(v, sum, &mut scores[token..token + piece.tokens]),
                }
            }
            token += piece.tokens;
        }
        for (running, scores) in running.iter_mut().zip(&mut scores) {
            let count = running.seen.saturating_sub(start).min(most);
            self.weigh(v, &mut scores[..most], count, running);
        }
        let mut from = 0;
        while from < self.shape.head_size {
            from += match self.shape.head_size - from {
                64.. => self.add_values::<V, QUERIES, 4>(v, from, pieces, most, &scores, running),
                16.. => self.add_values::<V, QUERIES, 1>(v, from, pieces, most, &scores, running),
                _ => self.add_rest(v, from, pieces, most, &scores, running),
            };
        }
    }

    /// Products of queries with all keys of a span in whole blocks: enough sums at a time that none
    /// waits for itself.
    #[inline(always)]
    fn whole_scores<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        pieces: &Pieces,
        running: &[Running; QUERIES],
        scores: &mut [[f32; SPAN]; QUERIES],
    ) {
        let head_size = self.shape.head_size;
        let query: [&[f32]; QUERIES] =
            std::array::from_fn(|index| &self.query[running[index].query..][..head_size]);
        let lines: [&[[T; LANES]]; SPAN / LANES] = std::array::from_fn(|piece| {
            let panel = &self.keys[pieces.pieces[piece].at..][..head_size * LANES];
            panel.as_chunks::<LANES>().0
        });
        let mut sums = [[v.splat(0.0); SPAN / LANES]; QUERIES];
        for number in 0..head_size {
            let mut keys = [v.splat(0.0); SPAN / LANES];
            for piece in 0..SPAN / LANES {
                keys[piece] = T::load(v, &lines[piece][number]);
            }
            for index in 0..QUERIES {
                let query = v.splat(query[index][number]);
                for piece in 0..SPAN / LANES {
                    sums[index][piece] = v.mul_add(query, keys[piece], sums[index][piece]);
                }
            }
        }
        for index in 0..QUERIES {
            let lanes = scores[index].as_chunks_mut::<LANES>().0;
            for piece in 0..SPAN / LANES {
                v.store(sums[index][piece], &mut lanes[piece]);
            }
        }
    }

    /// Products of queries with the keys of a piece, one key per lane.
    #[inline(always)]
    fn scores<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        piece: &Piece,
        running: &[Running; QUERIES],
    ) -> [V::F; QUERIES] {
        let (head_size, block_size) = (self.shape.head_size, self.cache.block_size);
        let query: [&[f32]; QUERIES] =
            std::array::from_fn(|index| &self.query[running[index].query..][..head_size]);
        let panel = &self.keys[piece.at..][..self.cache.panel()];
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
            let line = &line[piece.offset..];
            let keys = match line.first_chunk::<LANES>() {
                Some(lanes) => T::load(v, lanes),
                None => element::load_part(v, line),
            };
            for index in 0..QUERIES {
                let query = v.splat(query[index][number]);
                sums[index] = v.mul_add(query, keys, sums[index]);
            }
        }
        sums
    }

    /// Turns scores into weights relative to the largest so far, and scales down what was gathered
    /// when a larger one comes.
    #[inline(always)]
    fn weigh<V: Vector>(&self, v: V, scores: &mut [f32], count: usize, running: &mut Running) {
        let (seen, hidden) = scores.split_at_mut(count);
        hidden.fill(0.0);
        scale(v, seen, self.shape.scale);
        // Passes over what is not a number; the sum below does not.
        let most = largest(v, seen).max(running.largest);
        if most > running.largest {
            let shrink = (running.largest - most).exp();
            scale(v, self.out(running), shrink);
            running.weight *= shrink;
            running.largest = most;
        }
        if most == f32::NEG_INFINITY {
            // Every score is minus infinity: their weights are zero, and a distance is not a number.
            seen.fill(0.0);
            return;
        }
        running.weight += exponentials(v, seen, most);
    }

    /// Adds weighted values to `WIDE` vectors of the outputs, from number `from` of the head on;
    /// gives how many numbers that are.
    #[inline(always)]
    fn add_values<V: Vector, const QUERIES: usize, const WIDE: usize>(
        &self,
        v: V,
        from: usize,
        pieces: &Pieces,
        tokens: usize,
        scores: &[[f32; SPAN]; QUERIES],
        running: &[Running; QUERIES],
    ) -> usize {
        let head_size = self.shape.head_size;
        let mut sums = [[v.splat(0.0); WIDE]; QUERIES];
        for query in 0..QUERIES {
            let lanes = self.out(&running[query])[from..].as_chunks::<LANES>().0;
            for wide in 0..WIDE {
                sums[query][wide] = v.load(&lanes[wide]);
            }
        }
        let mut token = 0;
        for piece in &pieces.pieces[..pieces.count] {
            let count = piece.tokens.min(tokens - token);
            let rows = &self.values[piece.at + piece.offset * head_size..];
            let rows = rows[..count * head_size].chunks_exact(head_size);
            for (index, row) in rows.enumerate() {
                let lanes = &row[from..].as_chunks::<LANES>().0[..WIDE];
                let mut values = [v.splat(0.0); WIDE];
                for wide in 0..WIDE {
                    values[wide] = T::load(v, &lanes[wide]);
                }
                for query in 0..QUERIES {
                    let weight = v.splat(scores[query][token + index]);
                    for wide in 0..WIDE {
                        sums[query][wide] = v.mul_add(values[wide], weight, sums[query][wide]);
                    }
                }
            }
            token += count;
        }
        for query in 0..QUERIES {
            let lanes = self.out(&running[query])[from..].as_chunks_mut::<LANES>().0;
            for wide in 0..WIDE {
                v.store(sums[query][wide], &mut lanes[wide]);
            }
        }
        WIDE * LANES
    }

    /// The same for the last numbers of a head, which do not fill a vector.
    #[inline(always)]
    fn add_rest<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        from: usize,
        pieces: &Pieces,
        tokens: usize,
        scores: &[[f32; SPAN]; QUERIES],
        running: &[Running; QUERIES],
    ) -> usize {
        let head_size = self.shape.head_size;
        for (running, scores) in running.iter().zip(scores) {
            let out = &mut self.out(running)[from..];
            let mut sum = load_part(v, out, 0.0);
            let mut token = 0;
            for piece in &pieces.pieces[..pieces.count] {
                let count = piece.tokens.min(tokens - token);
                for index in 0..count {
                    let at = piece.at + (piece.offset + index) * head_size;
                    let values = element::load_part(v, &self.values[at + from..at + head_size]);
                    sum = v.mul_add(values, v.splat(scores[token + index]), sum);
                }
                token += count;
            }
            store_part(v, sum, out);
        }
        head_size - from
    }
}
