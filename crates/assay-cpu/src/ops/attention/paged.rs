//! Attention over keys and values in blocks: the newest tokens of some sequences, one or many of each.
//!
//! Decoding steps and chunks of prompts are the same call. A query's result does not depend on
//! what else is in it: its scores are made one number of the head after the other, its softmax
//! runs over [`KV_TILE`] tokens at a time from the sequence's first on, and its values are added
//! token by token. Only a long context that is num_splits between cores ([`PagedBatch::num_splits`]) is added
//! part by part, which rounds in another way.

use super::kv_cache::CacheShape;
use super::paged_kernel::{KV_TILE, MAX_QUERY_TILE, PagedTile};
use super::shape::AttentionShape;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_index, check_length, check_value};
use crate::ops::dispatch::Element;
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Parts of a call for each thread: enough that none waits long for the last one.
const TASKS_PER_THREAD: usize = 4;
/// Fewest tokens of a part of a context that is num_splits without being told how.
const MIN_SPLIT_TOKENS: usize = 256;

thread_local! {
    /// Results of the parts of num_splits contexts, kept from call to call so that none allocates.
    static PARTIALS: RefCell<AlignedBuffer> = RefCell::default();
}

/// Which tokens the queries of a call belong to.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch<'a> {
    /// Sequence s has the queries from `query_start_loc[s]` to `query_start_loc[s + 1]`.
    pub query_start_loc: &'a [i32],
    /// Tokens of each sequence, those of its queries included; 0 leaves it out.
    pub seq_lens: &'a [i32],
    /// For each sequence, its blocks in order.
    pub block_tables: &'a [i32],
    /// Blocks in a row of `block_tables`.
    pub columns: usize,
    /// In how many parts the context of a sequence with one query is read, by as many cores; 0
    /// splits long ones where there are too few queries for all cores.
    pub num_splits: usize,
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
    let wanted = TASKS_PER_THREAD * context.threads.count();
    let each = (queries.len() * shape.heads).div_ceil(wanted.max(1));
    let each = each.clamp(1, MAX_QUERY_TILE);
    let plan = |sequence: usize| {
        let rows = batch.rows(sequence).len();
        let num_splits = batch.parts(sequence, queries.len() * shape.kv_heads, &context);
        // Cores that share a context need not share its heads, which would read it once for each.
        let each = if num_splits > 1 {
            group.min(MAX_QUERY_TILE)
        } else {
            each
        };
        SequencePlan {
            each,
            tiles: (rows * group).div_ceil(each),
            num_splits,
        }
    };
    let sequences = 0..batch.seq_lens.len();
    let parts: usize = sequences.clone().map(|one| plan(one).parts()).sum();
    let record = shape.head_size + 2;
    let partial_rows = |sequence: usize| match plan(sequence).num_splits {
        1 => 0,
        num_splits => num_splits * shape.heads,
    };
    let records: usize = sequences.clone().map(partial_rows).sum();
    PARTIALS.with_borrow_mut(|kept| {
        let partial = DisjointSlice::new(kept.floats(records * record));
        let whole = DisjointSlice::new(&mut *out);
        context.threads.run(parts * shape.kv_heads, &|part| {
            let (kv_head, mut part) = (part % shape.kv_heads, part / shape.kv_heads);
            let mut first = 0;
            // Sequences are few: looking for a part's own costs less than a list of parts would.
            for sequence in sequences.clone() {
                let plan = plan(sequence);
                if part >= plan.parts() {
                    part -= plan.parts();
                    first += partial_rows(sequence);
                    continue;
                }
                let (tile, cut) = (part / plan.num_splits, part % plan.num_splits);
                let last = batch.rows(sequence).len() * group;
                let seq_len = batch.seq_lens[sequence] as usize;
                let tile = PagedTile {
                    shape,
                    cache,
                    query,
                    keys,
                    values,
                    blocks: &batch.block_tables[sequence * batch.columns..][..batch.columns],
                    rows: batch.rows(sequence),
                    seq_len,
                    kv_head,
                    queries: tile * plan.each..last.min((tile + 1) * plan.each),
                    tokens: plan.tokens(cut, seq_len),
                    partial: (plan.num_splits > 1).then_some((first + cut * shape.heads) * record),
                    out: if plan.num_splits > 1 {
                        &partial
                    } else {
                        &whole
                    },
                };
                T::paged_attention(context.level, tile);
                return;
            }
        });
        let partial = kept.floats(records * record);
        let mut first = 0;
        for sequence in sequences.clone().filter(|one| partial_rows(*one) > 0) {
            let heads = partial_rows(sequence) * record;
            let row = batch.rows(sequence).start * width;
            combine_splits(
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
struct SequencePlan {
    /// Queries of a tile.
    each: usize,
    tiles: usize,
    /// Parts of the context.
    num_splits: usize,
}

impl SequencePlan {
    fn parts(&self) -> usize {
        self.tiles * self.num_splits
    }

    /// The tokens of a part of the context: whole spans, the last part may have fewer or none.
    fn tokens(&self, cut: usize, seq_len: usize) -> Range<usize> {
        let each = seq_len.div_ceil(self.num_splits).next_multiple_of(KV_TILE);
        seq_len.min(cut * each)..seq_len.min((cut + 1) * each)
    }
}

/// Adds the parts of one query of every head: records of unscaled sums, the largest score and the
/// sum of weights relative to it.
fn combine_splits(parts: &[f32], out: &mut [f32], shape: AttentionShape) {
    let record = shape.head_size + 2;
    for (head, out) in out.chunks_exact_mut(shape.head_size).enumerate() {
        let of_head = || {
            let records = parts.chunks_exact(record).skip(head).step_by(shape.heads);
            records.map(|record| record.split_at(shape.head_size))
        };
        let largest = of_head().fold(f32::NEG_INFINITY, |most, (_, ends)| most.max(ends[0]));
        let rescale = |ends: &[f32]| match ends[1] {
            // A part without tokens, or whose scores are all minus infinity.
            0.0 => 0.0,
            _ => (ends[0] - largest).exp(),
        };
        let weight: f32 = of_head().map(|(_, ends)| ends[1] * rescale(ends)).sum();
        out.fill(0.0);
        for (sums, ends) in of_head() {
            let share = rescale(ends) / weight;
            for (out, sum) in out.iter_mut().zip(sums) {
                *out += sum * share;
            }
        }
    }
}

impl PagedBatch<'_> {
    fn rows(&self, sequence: usize) -> Range<usize> {
        self.query_start_loc[sequence] as usize..self.query_start_loc[sequence + 1] as usize
    }

    /// In how many parts a sequence's context is read, where all sequences together have `others`
    /// pairs of a query and a head of keys.
    fn parts(&self, sequence: usize, others: usize, context: &Context) -> usize {
        let seq_len = self.seq_lens[sequence] as usize;
        if self.rows(sequence).len() != 1 || seq_len == 0 {
            return 1;
        }
        let wanted = match self.num_splits {
            0 => (TASKS_PER_THREAD * context.threads.count())
                .div_ceil(others)
                .min(seq_len / MIN_SPLIT_TOKENS),
            num_splits => num_splits.min(seq_len.div_ceil(KV_TILE)),
        };
        wanted.max(1)
    }

    /// Checks everything that is read from memory; gives the queries that belong to sequences.
    fn check(&self, cache: CacheShape, rows: usize) -> Result<Range<usize>> {
        let operation = "paged_attention";
        let sequences = self.seq_lens.len();
        let starts = self.query_start_loc;
        check_length(operation, "query_start_loc", starts.len(), &[sequences + 1])?;
        let table = [sequences, self.columns];
        check_length(operation, "block_tables", self.block_tables.len(), &table)?;
        for start in starts {
            check_index(operation, "query_start_loc", i64::from(*start), rows + 1)?;
        }
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        check_value(
            operation,
            "query_start_loc",
            rising,
            "rising numbers",
            "others",
        )?;
        let held = self.columns * cache.block_size;
        for (sequence, seq_len) in self.seq_lens.iter().enumerate() {
            let seq_len = check_index(operation, "seq_lens", i64::from(*seq_len), held + 1)?;
            let rows = self.rows(sequence).len();
            check_value(
                operation,
                "seq_lens",
                seq_len == 0 || seq_len >= rows,
                format_args!("0, or at least the sequence's {rows} queries"),
                seq_len,
            )?;
            let used = seq_len.div_ceil(cache.block_size);
            for block in &self.block_tables[sequence * self.columns..][..used] {
                check_index(operation, "block_tables", i64::from(*block), cache.blocks)?;
            }
        }
        let edge = |start: Option<&i32>| start.map_or(0, |start| *start as usize);
        Ok(edge(starts.first())..edge(starts.last()))
    }
}
