//! Multi-head latent attention over a paged cache (DeepSeek-AI 2024, arXiv:2405.04434).
//!
//! The cache holds one row for each token: the latent that keys and values of all heads are made from,
//! and a key with RoPE that all heads share. Queries are in latent space already (weight absorption),
//! so that a row is the key of every head and its latent the value of every head. A query's result does
//! not depend on the rest of the batch.

use super::latent_kernel::{LatentTile, MAX_HEAD_TILE};
use super::paged::{PagedBatch, TASKS_PER_THREAD};
use super::shape::LatentShape;
use crate::context::Context;
use crate::error::{Result, check_length};
use crate::ops::dispatch::Element;
use crate::threads::DisjointSlice;

/// Writes causal attention of every query to `out`; rows of no sequence become zeros.
///
/// `q_latent` and `out` are rows x heads x rank, `q_rope` is rows x heads x rotary_dim, and `cache` is
/// blocks x block_size x (rank + rotary_dim).
pub fn latent_attention<T: Element>(
    context: Context,
    shape: LatentShape,
    q_latent: &[f32],
    q_rope: &[f32],
    cache: &[T],
    batch: PagedBatch,
    out: &mut [f32],
) -> Result<()> {
    let operation = "latent_attention";
    let blocks = shape.check(operation, cache.len())?;
    let width = shape.heads * shape.rank;
    let rows = q_latent.len() / width;
    check_length(operation, "q_latent", q_latent.len(), &[rows, width])?;
    let rotary = [rows, shape.heads, shape.rotary_dim];
    check_length(operation, "q_rope", q_rope.len(), &rotary)?;
    check_length(operation, "out", out.len(), &[rows, width])?;
    let queries = batch.check(operation, blocks, shape.block_size, rows)?;
    out[..queries.start * width].fill(0.0);
    out[queries.end * width..].fill(0.0);
    // Heads of a query share the rows that are in cache; few queries are partitioned further, so that
    // every core has work.
    let target = TASKS_PER_THREAD * context.threads.count();
    let heads_per_tile = (queries.len() * shape.heads).div_ceil(target.max(1));
    let heads_per_tile = heads_per_tile.clamp(1, MAX_HEAD_TILE);
    let tiles = shape.heads.div_ceil(heads_per_tile);
    let output = DisjointSlice::new(out);
    context.threads.run(queries.len() * tiles, &|task| {
        // The last queries see the most tokens: they are scheduled first, for load balance.
        let row = queries.end - 1 - task / tiles;
        let first = task % tiles * heads_per_tile;
        // The last sequence that starts at the row or before it; empty ones before it start there, too.
        let starts = batch.query_start_loc;
        let sequence = starts.partition_point(|start| *start as usize <= row) - 1;
        let seq_len = batch.seq_lens[sequence] as usize;
        let after = batch.rows(sequence).end - 1 - row;
        let tile = LatentTile {
            shape,
            q_latent,
            q_rope,
            cache,
            blocks: &batch.block_tables[sequence * batch.columns..][..batch.columns],
            row,
            visible: seq_len.saturating_sub(after),
            heads: first..shape.heads.min(first + heads_per_tile),
            out: &output,
        };
        T::latent_attention(context.level, tile);
    });
    Ok(())
}
