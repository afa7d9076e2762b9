//! Attention over keys and values in blocks: the newest tokens of some sequences, one or many of each.
//!
//! Decoding steps and chunks of prompts are the same call. A query's result does not depend on
//! what else is in it: its scores are made one number of the head after the other, its softmax
//! runs over [`SPAN`] tokens at a time from the sequence's first on, and its values are added
//! token by token. Only a long context that is split between cores ([`PagedBatch::split`]) is added
//! part by part, which rounds in another way.

use super::element::{self, Element};
use super::softmax::{exponentials, largest, scale};
use super::{AttentionShape, CacheShape, Context};
use crate::aligned::Aligned;
use crate::error::{Result, check_index, check_length, check_value};
use crate::simd::{Kernel, LANES, Vector, load_part, store_part};
use crate::threads::Disjoint;
use std::cell::RefCell;
use std::ops::Range;

/// Tokens whose scores are held at a time.
const SPAN: usize = 64;
/// Most queries of a part: they read the same keys while those are in the cache.
const MOST_QUERIES: usize = 32;

/// Parts of a call for each thread: enough that none waits long for the last one.
const PARTS_PER_THREAD: usize = 4;
/// Fewest tokens of a part of a context that is split without being told how.
const LEAST_SPLIT: usize = 256;

thread_local! {
    /// Results of the parts of split contexts, kept from call to call so that none allocates.
    static PARTS: RefCell<Aligned> = RefCell::default();
}

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
    /// In how many parts the context of a sequence with one query is read, by as many cores; 0
    /// splits long ones where there are too few queries for all cores.
    pub split: usize,
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
    let group = shape.group();
    // Few queries are divided further, so that every core has some.
    let wanted = PARTS_PER_THREAD * context.threads.count();
    let each = (queries.len() * shape.heads).div_ceil(wanted.max(1));
    let each = each.clamp(1, MOST_QUERIES);
    let plan = |sequence: usize| {
        let rows = batch.rows(sequence).len();
        let split = batch.parts(sequence, queries.len() * shape.kv_heads, &context);
        // Cores that share a context need not share its heads, which would read it once for each.
        let each = if split > 1 {
            group.min(MOST_QUERIES)
        } else {
            each
        };
        Plan {
            each,
            tiles: (rows * group).div_ceil(each),
            split,
        }
    };
    let sequences = 0..batch.lengths.len();
    let parts: usize = sequences.clone().map(|one| plan(one).parts()).sum();
    let record = shape.head_size + 2;
    let split_of = |sequence: usize| match plan(sequence).split {
        1 => 0,
        split => split * shape.heads,
    };
    let records: usize = sequences.clone().map(split_of).sum();
    PARTS.with_borrow_mut(|kept| {
        let partial = Disjoint::new(kept.floats(records * record));
        let whole = Disjoint::new(&mut *out);
        context.threads.run(parts * shape.kv_heads, &|part| {
            let (kv_head, mut part) = (part % shape.kv_heads, part / shape.kv_heads);
            let mut first = 0;
            // Sequences are few: looking for a part's own costs less than a list of parts would.
            for sequence in sequences.clone() {
                let plan = plan(sequence);
                if part >= plan.parts() {
                    part -= plan.parts();
                    first += split_of(sequence);
                    continue;
                }
                let (tile, cut) = (part / plan.split, part % plan.split);
                let last = batch.rows(sequence).len() * group;
                let length = batch.lengths[sequence] as usize;
                let tile = Tile {
                    shape,
                    cache,
                    query,
                    keys,
                    values,
                    blocks: &batch.block_tables[sequence * batch.columns..][..batch.columns],
                    rows: batch.rows(sequence),
                    length,
                    kv_head,
                    queries: tile * plan.each..last.min((tile + 1) * plan.each),
                    tokens: plan.tokens(cut, length),
                    partial: (plan.split > 1).then_some((first + cut * shape.heads) * record),
                    out: if plan.split > 1 { &partial } else { &whole },
                };
                T::paged(context.level, tile);
                return;
            }
        });
        let partial = kept.floats(records * record);
        let mut first = 0;
        for sequence in sequences.clone().filter(|one| split_of(*one) > 0) {
            let heads = split_of(sequence) * record;
            let row = batch.rows(sequence).start * width;
            join(
                &partial[first..first + heads],
                &mut out[row..row + width],
                shape,
            );
            first += heads;
        }
    });
    Ok(())
}

/// How the work of a sequence is divided.
struct Plan {
    /// Queries of a tile.
    each: usize,
    tiles: usize,
    /// Parts of the context.
    split: usize,
}

impl Plan {
    fn parts(&self) -> usize {
        self.tiles * self.split
    }

    /// The tokens of a part of the context: whole spans, the last part may have fewer or none.
    fn tokens(&self, cut: usize, length: usize) -> Range<usize> {
        let each = length.div_ceil(self.split).next_multiple_of(SPAN);
        length.min(cut * each)..length.min((cut + 1) * each)
    }
}

/// Adds the parts of one query of every head: records of unscaled sums, the largest score and the
/// sum of weights relative to it.
fn join(parts: &[f32], out: &mut [f32], shape: AttentionShape) {
    let record = shape.head_size + 2;
    for (head, out) in out.chunks_exact_mut(shape.head_size).enumerate() {
        let of_head = || {
            let records = parts.chunks_exact(record).skip(head).step_by(shape.heads);
            records.map(|record| record.split_at(shape.head_size))
        };
        let largest = of_head().fold(f32::NEG_INFINITY, |most, (_, ends)| most.max(ends[0]));
        let shrink = |ends: &[f32]| match ends[1] {
            // A part without tokens, or whose scores are all minus infinity.
            0.0 => 0.0,
            _ => (ends[0] - largest).exp(),
        };
        let weight: f32 = of_head().map(|(_, ends)| ends[1] * shrink(ends)).sum();
        out.fill(0.0);
        for (sums, ends) in of_head() {
            let share = shrink(ends) / weight;
            for (out, sum) in out.iter_mut().zip(sums) {
                *out += sum * share;
            }
        }
    }
}

impl PagedBatch<'_> {
    fn rows(&self, sequence: usize) -> Range<usize> {
        self.query_starts[sequence] as usize..self.query_starts[sequence + 1] as usize
    }

    /// In how many parts a sequence's context is read, where all sequences together have `others`
    /// pairs of a query and a head of keys.
    fn parts(&self, sequence: usize, others: usize, context: &Context) -> usize {
        let length = self.lengths[sequence] as usize;
        if self.rows(sequence).len() != 1 || length == 0 {
            return 1;
        }
        let wanted = match self.split {
            0 => (PARTS_PER_THREAD * context.threads.count())
                .div_ceil(others)
                .min(length / LEAST_SPLIT),
            split => split.min(length.div_ceil(SPAN)),
        };
        wanted.max(1)
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
    /// Tokens whose keys and values are read.
    tokens: Range<usize>,
    /// Where the sums of a part of the context go, in records of each head; none where the tile
    /// has all of it.
    partial: Option<usize>,
    out: &'a Disjoint<'a, f32>,
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
