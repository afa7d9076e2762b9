//! Attention over keys and values in blocks: the newest tokens of some sequences, one or many of each.
//!
//! Decoding steps and chunks of prompts are the same call. A query's result does not depend on
//! what else is in it: its scores are made one number of the head after the other, its softmax
//! runs over [`SPAN`] tokens at a time from the sequence's first on, and its values are added
//! token by token.

use super::element::{self, Element};
use super::softmax::{exponentials, largest, scale};
use super::{AttentionShape, CacheShape, Context};
use crate::error::{Result, check_index, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_part, store_part};
use crate::threads::Disjoint;
use std::ops::Range;

/// Tokens whose scores are held at a time.
const SPAN: usize = 64;
/// Most queries of a part: they read the same keys while those are in the cache.
const MOST_QUERIES: usize = 32;

/// Which tokens the queries of a call belong to.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch<'a> {
    /// Sequence s has the queries from `query_starts[s]` to `query_starts[s + 1]`.
    pub query_starts: &'a [i32],
    /// Tokens of each sequence, those of its queries included; 0 leaves it out.
    pub lengths: &'a [i32],
    /// For each sequence, its blocks in order.
    pub block_tables: &'a [i32],
    /// Blocks in a row of `block_tables`.
    pub columns: usize,
}

/// Writes causal attention of every query to `out`; what belongs to no sequence becomes zeros.
///
/// `query` and `out` are rows x heads x head_size; the caches are as [`CacheShape`] says.
#[allow(clippy::too_many_arguments)] // Three shapes, four arrays: a struct would only rename them.
pub fn paged_attention<T: Element>(
    context: Context,
    shape: AttentionShape,
    cache: CacheShape,
    query: &[f32],
    keys: &[T],
    values: &[T],
    batch: PagedBatch,
    out: &mut [f32],
) -> Result<()> {
    let operation = "paged_attention";
    shape.check(operation)?;
    cache.check(operation, "keys", keys)?;
    cache.check(operation, "values", values)?;
    let own = (cache.kv_heads, cache.head_size);
    check_value(
        operation,
        "cache",
        own == (shape.kv_heads, shape.head_size),
        format_args!("{} heads of {}", shape.kv_heads, shape.head_size),
        format_args!("{} heads of {}", own.0, own.1),
    )?;
    let width = shape.heads * shape.head_size;
    let rows = query.len() / width;
    check_length(operation, "query", query.len(), &[rows, width])?;
    check_length(operation, "out", out.len(), &[rows, width])?;
    let queries = batch.check(cache, rows)?;
    out[..queries.start * width].fill(0.0);
    out[queries.end * width..].fill(0.0);
    let out = Disjoint::new(out);
    let group = shape.group();
    // Few queries are divided further, so that every core has some.
    let wanted = 4 * context.threads.count();
    let each = (queries.len() * shape.heads).div_ceil(wanted.max(1));
    let each = each.clamp(1, MOST_QUERIES);
    let sequences = 0..batch.lengths.len();
    let tiles = |sequence: usize| (batch.rows(sequence).len() * group).div_ceil(each);
    let parts: usize = sequences.clone().map(tiles).sum();
    context.threads.run(parts * shape.kv_heads, &|part| {
        let (kv_head, mut tile) = (part % shape.kv_heads, part / shape.kv_heads);
        // Sequences are few: looking for a part's own costs less than a list of parts would.
        for sequence in sequences.clone() {
            let count = tiles(sequence);
            if tile >= count {
                tile -= count;
                continue;
            }
            let last = batch.rows(sequence).len() * group;
            let tile = Tile {
                shape,
                cache,
                query,
                keys,
                values,
                blocks: &batch.block_tables[sequence * batch.columns..][..batch.columns],
                rows: batch.rows(sequence),
                length: batch.lengths[sequence] as usize,
                kv_head,
                queries: tile * each..last.min((tile + 1) * each),
                out: &out,
            };
            T::paged(context.level, tile);
            return;
        }
    });
    Ok(())
}

impl PagedBatch<'_> {
    fn rows(&self, sequence: usize) -> Range<usize> {
        self.query_starts[sequence] as usize..self.query_starts[sequence + 1] as usize
    }

    /// Checks everything that is read from memory; gives the queries that belong to sequences.
    fn check(&self, cache: CacheShape, rows: usize) -> Result<Range<usize>> {
        let operation = "paged_attention";
        let sequences = self.lengths.len();
        let starts = self.query_starts;
        check_length(operation, "query_starts", starts.len(), &[sequences + 1])?;
        let table = [sequences, self.columns];
        check_length(operation, "block_tables", self.block_tables.len(), &table)?;
        for start in starts {
            check_index(operation, "query_starts", i64::from(*start), rows + 1)?;
        }
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        check_value(
            operation,
            "query_starts",
            rising,
            "rising numbers",
            "others",
        )?;
        let held = self.columns * cache.block_size;
        for (sequence, length) in self.lengths.iter().enumerate() {
            let length = check_index(operation, "lengths", i64::from(*length), held + 1)?;
            let rows = self.rows(sequence).len();
            check_value(
                operation,
                "lengths",
                length == 0 || length >= rows,
                format_args!("0, or at least the sequence's {rows} queries"),
                length,
            )?;
            let used = length.div_ceil(cache.block_size);
            for block in &self.block_tables[sequence * self.columns..][..used] {
                check_index(operation, "block_tables", i64::from(*block), cache.blocks)?;
            }
        }
        let edge = |start: Option<&i32>| start.map_or(0, |start| *start as usize);
        Ok(edge(starts.first())..edge(starts.last()))
    }
}

/// Some queries of one sequence that share a head of keys.
///
/// Query i is head i % group of row i / group.
pub(crate) struct Tile<'a, T> {
    shape: AttentionShape,
    cache: CacheShape,
    query: &'a [f32],
    keys: &'a [T],
    values: &'a [T],
    blocks: &'a [i32],
    rows: Range<usize>,
    length: usize,
    kv_head: usize,
    queries: Range<usize>,
    out: &'a Disjoint<'a, f32>,
}

/// One query on its way: where its numbers are, what it sees, and its softmax so far.
#[derive(Clone, Copy, Default)]
struct Running {
    start: usize,
    seen: usize,
    largest: f32,
    weight: f32,
}

/// Neighbouring tokens of one block, at most a vector of them.
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
            *running = Running {
                start: place * self.shape.head_size,
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
        for start in (0..longest).step_by(SPAN) {
            let pieces = self.pieces(start, longest.min(start + SPAN));
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
            scale(v, self.out(running), 1.0 / running.weight);
        }
    }
}

impl<T: Element> Tile<'_, T> {
    // The borrow is of the output behind, of which a part has its own queries.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    fn out(&self, running: &Running) -> &mut [f32] {
        let range = running.start..running.start + self.shape.head_size;
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
            std::array::from_fn(|index| &self.query[running[index].start..][..head_size]);
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
            std::array::from_fn(|index| &self.query[running[index].start..][..head_size]);
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
