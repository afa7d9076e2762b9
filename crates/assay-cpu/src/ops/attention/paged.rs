//! Paged attention: the newest tokens of queries_per_tile sequence over a paged KV cache.
//!
//! Decode steps and prefill chunks use the same call. A query's result does not depend on the rest of
//! the batch: its dot products, its online softmax over tiles of [`KV_TILE`] tokens and its weighted
//! sum of values run in a fixed order. Only split contexts ([`PagedBatch::num_splits`], as in
//! Flash-Decoding) are combined from partial results, which rounds differently.

use super::kv_cache::CacheShape;
use super::paged_kernel::{KV_TILE, MAX_QUERY_TILE, PagedTile};
use super::shape::{AttentionShape, ScoreOptions};
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::error::{Result, check_index, check_length, check_value};
use crate::ops::dispatch::CacheElement;
use crate::threads::DisjointSlice;
use std::cell::RefCell;
use std::ops::Range;

/// Tasks per thread: enough for load balance.
pub(super) const TASKS_PER_THREAD: usize = 4;
/// The fewest tokens of a split where `num_splits` is 0.
const MIN_SPLIT_TOKENS: usize = 256;

thread_local! {
    /// Partial results of split contexts, reused from call to call.
    static PARTIALS: RefCell<AlignedBuffer> = RefCell::default();
}

/// The sequences of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch<'a> {
    /// Sequence s has the queries from `query_start_loc[s]` to `query_start_loc[s + 1]`.
    pub query_start_loc: &'a [i32],
    /// Tokens of queries_per_tile sequence, its queries included; 0 skips the sequence.
    pub seq_lens: &'a [i32],
    /// The block table of queries_per_tile sequence.
    pub block_tables: &'a [i32],
    /// Blocks in a row of `block_tables`.
    pub columns: usize,
    /// Splits of the context of a sequence with one query; 0 splits long contexts where there are too
    /// few queries for all cores.
    pub num_splits: usize,
}

/// Writes causal attention of every query to `out`; rows of no sequence become zeros.
///
/// `query` and `out` are rows x heads x head_size; [`CacheShape`] describes the caches.
#[allow(clippy::too_many_arguments)] // Three shapes, four arrays: a struct would only rename them.
pub fn paged_attention<T: CacheElement>(
    context: Context,
    shape: AttentionShape,
    options: ScoreOptions,
    cache: CacheShape,
    query: &[f32],
    keys: &[T],
    values: &[T],
    batch: PagedBatch,
    out: &mut [f32],
) -> Result<()> {
    let operation = "paged_attention";
    shape.check(operation)?;
    options.check(operation, shape.heads)?;
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
    let queries = batch.check(operation, cache.blocks, cache.block_size, rows)?;
    out[..queries.start * width].fill(0.0);
    out[queries.end * width..].fill(0.0);
    let group = shape.group();
    // Few queries are partitioned further, so that every core has work.
    let target = TASKS_PER_THREAD * context.threads.count();
    let queries_per_tile = (queries.len() * shape.heads).div_ceil(target.max(1));
    let queries_per_tile = queries_per_tile.clamp(1, MAX_QUERY_TILE);
    let plan = |sequence: usize| {
        let rows = batch.rows(sequence).len();
        let seq_len = batch.seq_lens[sequence] as usize;
        // Splits have a single row; its window begins in this tile.
        let first = options.first_visible(seq_len) / KV_TILE * KV_TILE;
        let others = queries.len() * shape.kv_heads;
        let num_splits = batch.splits(sequence, seq_len - first, others, &context);
        // With splits, a task takes all query heads of a KV head, so that the keys are read once.
        let queries_per_tile =
            if num_splits > 1 { group.min(MAX_QUERY_TILE) } else { queries_per_tile };
        SequencePlan {
            queries_per_tile,
            tiles: (rows * group).div_ceil(queries_per_tile),
            num_splits,
            first: if num_splits > 1 { first } else { 0 },
        }
    };
    let sequences = 0..batch.seq_lens.len();
    let tasks: usize = sequences.clone().map(|one| plan(one).tasks()).sum();
    let record = shape.head_size + 2;
    let partial_rows = |sequence: usize| match plan(sequence).num_splits {
        1 => 0,
        num_splits => num_splits * shape.heads,
    };
    let records: usize = sequences.clone().map(partial_rows).sum();
    PARTIALS.with_borrow_mut(|buffer| {
        let partial = DisjointSlice::new(buffer.floats(records * record));
        let output = DisjointSlice::new(&mut *out);
        context.threads.run(tasks * shape.kv_heads, &|task| {
            let (kv_head, mut task) = (task % shape.kv_heads, task / shape.kv_heads);
            let mut first = 0;
            // Sequences are few: searching for a task's sequence is cheaper than a list of tasks.
            for sequence in sequences.clone() {
                let plan = plan(sequence);
                if task >= plan.tasks() {
                    task -= plan.tasks();
                    first += partial_rows(sequence);
                    continue;
                }
                let (tile, split) = (task / plan.num_splits, task % plan.num_splits);
                let last = batch.rows(sequence).len() * group;
                let seq_len = batch.seq_lens[sequence] as usize;
                let tile = PagedTile {
                    shape,
                    options,
                    cache,
                    query,
                    keys,
                    values,
                    blocks: &batch.block_tables[sequence * batch.columns..][..batch.columns],
                    rows: batch.rows(sequence),
                    seq_len,
                    kv_head,
                    queries: tile * plan.queries_per_tile
                        ..last.min((tile + 1) * plan.queries_per_tile),
                    tokens: plan.tokens(split, seq_len),
                    partial: (plan.num_splits > 1)
                        .then_some((first + split * shape.heads) * record),
                    out: if plan.num_splits > 1 { &partial } else { &output },
                };
                T::paged_attention(context.level, tile);
                return;
            }
        });
        let partial = buffer.floats(records * record);
        let mut first = 0;
        for sequence in sequences.clone().filter(|one| partial_rows(*one) > 0) {
            let heads = partial_rows(sequence) * record;
            let row = batch.rows(sequence).start * width;
            combine_splits(
                &partial[first..first + heads],
                &mut out[row..row + width],
                shape,
                options.sinks,
            );
            first += heads;
        }
    });
    Ok(())
}

/// The work partition of one sequence.
struct SequencePlan {
    /// Queries per tile.
    queries_per_tile: usize,
    tiles: usize,
    /// Splits of the context.
    num_splits: usize,
    /// The first token of the splits.
    first: usize,
}

impl SequencePlan {
    fn tasks(&self) -> usize {
        self.tiles * self.num_splits
    }

    /// The tokens of a split: output KV tiles; the last splits may have fewer tokens or none.
    fn tokens(&self, split: usize, seq_len: usize) -> Range<usize> {
        let tokens = (seq_len - self.first).div_ceil(self.num_splits);
        let tokens = tokens.next_multiple_of(KV_TILE);
        let start = self.first + split * tokens;
        seq_len.min(start)..seq_len.min(start + tokens)
    }
}

/// Combines the splits of one query of every head. A record is the unnormalized accumulator, the
/// maximum score and the sum of weights relative to it.
fn combine_splits(partials: &[f32], out: &mut [f32], shape: AttentionShape, sinks: Option<&[f32]>) {
    let record = shape.head_size + 2;
    for (head, out) in out.chunks_exact_mut(shape.head_size).enumerate() {
        let of_head = || {
            let records = partials.chunks_exact(record).skip(head).step_by(shape.heads);
            records.map(|record| record.split_at(shape.head_size))
        };
        let sink = sinks.map_or(f32::NEG_INFINITY, |sinks| sinks[head]);
        let largest = of_head().fold(sink, |most, (_, ends)| most.max(ends[0]));
        let rescale = |ends: &[f32]| match ends[1] {
            // A split without tokens, or with all scores minus infinity.
            0.0 => 0.0,
            _ => (ends[0] - largest).exp(),
        };
        let mut weight: f32 = of_head().map(|(_, ends)| ends[1] * rescale(ends)).sum();
        if sinks.is_some() {
            weight += (sink - largest).exp();
        }
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
    pub(super) fn rows(&self, sequence: usize) -> Range<usize> {
        self.query_start_loc[sequence] as usize..self.query_start_loc[sequence + 1] as usize
    }

    /// Splits of the `seq_len` tokens that a sequence's query sees, where the batch has `others` pairs of
    /// a query and a KV head.
    fn splits(&self, sequence: usize, seq_len: usize, others: usize, context: &Context) -> usize {
        if self.rows(sequence).len() != 1 || seq_len == 0 {
            return 1;
        }
        let target = match self.num_splits {
            0 => (TASKS_PER_THREAD * context.threads.count())
                .div_ceil(others)
                .min(seq_len / MIN_SPLIT_TOKENS),
            num_splits => num_splits.min(seq_len.div_ceil(KV_TILE)),
        };
        target.max(1)
    }

    /// Checks the metadata; returns the range of queries that belong to sequences.
    pub(crate) fn check(
        &self,
        operation: &'static str,
        blocks: usize,
        block_size: usize,
        rows: usize,
    ) -> Result<Range<usize>> {
        let sequences = self.seq_lens.len();
        let starts = self.query_start_loc;
        check_length(operation, "query_start_loc", starts.len(), &[sequences + 1])?;
        let table = [sequences, self.columns];
        check_length(operation, "block_tables", self.block_tables.len(), &table)?;
        for start in starts {
            check_index(operation, "query_start_loc", i64::from(*start), rows + 1)?;
        }
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        check_value(operation, "query_start_loc", rising, "rising numbers", "others")?;
        let capacity = self.columns.saturating_mul(block_size);
        for (sequence, seq_len) in self.seq_lens.iter().enumerate() {
            let seq_len = check_index(
                operation,
                "seq_lens",
                i64::from(*seq_len),
                capacity.saturating_add(1),
            )?;
            let rows = self.rows(sequence).len();
            check_value(
                operation,
                "seq_lens",
                seq_len == 0 || seq_len >= rows,
                format_args!("0, or at least the sequence's {rows} queries"),
                seq_len,
            )?;
            let used_blocks = seq_len.div_ceil(block_size);
            for block in &self.block_tables[sequence * self.columns..][..used_blocks] {
                check_index(operation, "block_tables", i64::from(*block), blocks)?;
            }
        }
        let edge = |start: Option<&i32>| start.map_or(0, |start| *start as usize);
        Ok(edge(starts.first())..edge(starts.last()))
    }
}
