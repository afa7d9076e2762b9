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

/// Neighbouring tokens of one block, at most a vector of them.
struct Piece {
    /// Where the head's numbers begin in the block, in either cache.
    at: usize,
    /// The first token's place in the block.
    offset: usize,
    tokens: usize,
}

impl<T: Element> Kernel for Tile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let mut softmax = [(f32::NEG_INFINITY, 0.0_f32); MOST_QUERIES];
        for query in self.queries.clone() {
            self.out(query).fill(0.0);
        }
        if self.length == 0 {
            return;
        }
        let longest = self.seen(self.queries.end - 1);
        for start in (0..longest).step_by(SPAN) {
            let mut query = self.queries.clone();
            while !query.is_empty() {
                let softmax = &mut softmax[query.start - self.queries.start..];
                query.start += match query.len() {
                    4.. => self.span::<V, 4>(v, start, query.start, softmax),
                    2.. => self.span::<V, 2>(v, start, query.start, softmax),
                    _ => self.span::<V, 1>(v, start, query.start, softmax),
                };
            }
        }
        for (query, (_, weight)) in self.queries.clone().zip(softmax) {
            scale(v, self.out(query), 1.0 / weight);
        }
    }
}

impl<T: Element> Tile<'_, T> {
    #[inline(always)]
    fn start(&self, query: usize) -> usize {
        let group = self.shape.group();
        let row = self.rows.start + query / group;
        let head = self.kv_head * group + query % group;
        (row * self.shape.heads + head) * self.shape.head_size
    }

    // The borrow is of the output behind, of which a part has its own queries.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    fn out(&self, query: usize) -> &mut [f32] {
        let start = self.start(query);
        // SAFETY: each part has its own rows and heads, and looks at one query at a time.
        unsafe { self.out.part(start..start + self.shape.head_size) }
    }

    /// Tokens that a query sees.
    #[inline(always)]
    fn seen(&self, query: usize) -> usize {
        self.length - self.rows.len() + query / self.shape.group() + 1
    }

    #[inline(always)]
    fn piece(&self, token: usize, end: usize) -> Piece {
        let (block, offset) = (token / self.cache.block_size, token % self.cache.block_size);
        Piece {
            at: self.cache.at(self.blocks[block] as usize, self.kv_head),
            offset,
            tokens: LANES.min(self.cache.block_size - offset).min(end - token),
        }
    }

    /// Takes `QUERIES` queries over one span of tokens; gives their count.
    #[inline(always)]
    fn span<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        start: usize,
        first: usize,
        softmax: &mut [(f32, f32)],
    ) -> usize {
        let counts: [usize; QUERIES] =
            std::array::from_fn(|index| self.seen(first + index).saturating_sub(start).min(SPAN));
        // Later queries see no fewer.
        let most = counts[QUERIES - 1];
        let mut scores = [[0.0; SPAN]; QUERIES];
        let mut token = 0;
        while token < most {
            let piece = self.piece(start + token, start + most);
            let sums = self.scores::<V, QUERIES>(v, first, &piece);
            for (scores, sum) in scores.iter_mut().zip(sums) {
                match scores[token..].first_chunk_mut::<LANES>() {
                    Some(lanes) if piece.tokens == LANES => v.store(sum, lanes),
                    _ => store_part(v, sum, &mut scores[token..token + piece.tokens]),
                }
            }
            token += piece.tokens;
        }
        for (index, scores) in scores.iter_mut().enumerate() {
            self.weigh(
                v,
                first + index,
                &mut scores[..most],
                counts[index],
                &mut softmax[index],
            );
        }
        let (head_size, tokens) = (self.shape.head_size, start..start + most);
        let mut from = 0;
        while from < head_size {
            let tokens = tokens.clone();
            from += match head_size - from {
                64.. => {
                    self.add_values::<V, QUERIES, 4>(v, first, from, tokens, &scores);
                    64
                }
                16.. => {
                    self.add_values::<V, QUERIES, 1>(v, first, from, tokens, &scores);
                    16
                }
                rest => {
                    self.add_rest::<V, QUERIES>(v, first, from, tokens, &scores);
                    rest
                }
            };
        }
        QUERIES
    }

    /// Products of queries with the keys of a piece, one key per lane.
    #[inline(always)]
    fn scores<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        first: usize,
        piece: &Piece,
    ) -> [V::F; QUERIES] {
        let (head_size, block_size) = (self.shape.head_size, self.cache.block_size);
        let query: [&[f32]; QUERIES] =
            std::array::from_fn(|index| &self.query[self.start(first + index)..][..head_size]);
        let panel = &self.keys[piece.at..][..self.cache.panel()];
        let mut sums = [v.splat(0.0); QUERIES];
        if block_size.is_multiple_of(LANES) {
            let lines = panel.as_chunks::<LANES>().0[piece.offset / LANES..].iter();
            let lines = lines.step_by(block_size / LANES);
            for (number, line) in lines.enumerate().take(head_size) {
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
            let keys = element::load_part(v, &line[..line.len().min(LANES)]);
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
    fn weigh<V: Vector>(
        &self,
        v: V,
        query: usize,
        scores: &mut [f32],
        count: usize,
        (before, weight): &mut (f32, f32),
    ) {
        let (seen, hidden) = scores.split_at_mut(count);
        hidden.fill(0.0);
        scale(v, seen, self.shape.scale);
        // Passes over what is not a number; the sum below does not.
        let most = largest(v, seen).max(*before);
        if most > *before {
            let shrink = (*before - most).exp();
            scale(v, self.out(query), shrink);
            *weight *= shrink;
            *before = most;
        }
        if most == f32::NEG_INFINITY {
            // Every score is minus infinity: their weights are zero, and a distance is not a number.
            seen.fill(0.0);
            return;
        }
        *weight += exponentials(v, seen, most);
    }

    /// Adds weighted values to `WIDE` vectors of the output, from number `from` of the head on.
    #[inline(always)]
    fn add_values<V: Vector, const QUERIES: usize, const WIDE: usize>(
        &self,
        v: V,
        first: usize,
        from: usize,
        tokens: Range<usize>,
        scores: &[[f32; SPAN]; QUERIES],
    ) {
        let head_size = self.shape.head_size;
        let mut sums = [[v.splat(0.0); WIDE]; QUERIES];
        for query in 0..QUERIES {
            let lanes = self.out(first + query)[from..].as_chunks::<LANES>().0;
            for wide in 0..WIDE {
                sums[query][wide] = v.load(&lanes[wide]);
            }
        }
        let mut token = tokens.start;
        while token < tokens.end {
            let piece = self.piece(token, tokens.end);
            let rows = &self.values[piece.at + piece.offset * head_size..];
            let rows = rows[..piece.tokens * head_size].chunks_exact(head_size);
            for (index, row) in rows.enumerate() {
                let lanes = &row[from..].as_chunks::<LANES>().0[..WIDE];
                let at = token - tokens.start + index;
                let mut values = [v.splat(0.0); WIDE];
                for wide in 0..WIDE {
                    values[wide] = T::load(v, &lanes[wide]);
                }
                for query in 0..QUERIES {
                    let weight = v.splat(scores[query][at]);
                    for wide in 0..WIDE {
                        sums[query][wide] = v.mul_add(values[wide], weight, sums[query][wide]);
                    }
                }
            }
            token += piece.tokens;
        }
        for query in 0..QUERIES {
            let lanes = self.out(first + query)[from..].as_chunks_mut::<LANES>().0;
            for wide in 0..WIDE {
                v.store(sums[query][wide], &mut lanes[wide]);
            }
        }
    }

    /// The same for the numbers of a head that do not fill a vector.
    #[inline(always)]
    fn add_rest<V: Vector, const QUERIES: usize>(
        &self,
        v: V,
        first: usize,
        from: usize,
        tokens: Range<usize>,
        scores: &[[f32; SPAN]; QUERIES],
    ) {
        let head_size = self.shape.head_size;
        let mut sums = [v.splat(0.0); QUERIES];
        for query in 0..QUERIES {
            sums[query] = load_part(v, &self.out(first + query)[from..], 0.0);
        }
        for token in tokens.clone() {
            let piece = self.piece(token, token + 1);
            let row = &self.values[piece.at + piece.offset * head_size..][..head_size];
            let values = element::load_part(v, &row[from..]);
            for query in 0..QUERIES {
                let weight = v.splat(scores[query][token - tokens.start]);
                sums[query] = v.mul_add(values, weight, sums[query]);
            }
        }
        for query in 0..QUERIES {
            store_part(v, sums[query], &mut self.out(first + query)[from..]);
        }
    }
}
