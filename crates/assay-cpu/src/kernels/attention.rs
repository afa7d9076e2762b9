//! Attention over a paged cache, and over dense keys and values.

use super::call::{Call, for_cache_element, for_element, op_error};
use crate::ops::{self, AttentionShape, CacheShape, Context, PagedBatch, ScoreOptions};
use assay_runtime::backend::Result;

fn shape(call: &Call<'_>) -> Result<AttentionShape> {
    Ok(AttentionShape {
        heads: call.size("heads")?,
        kv_heads: call.size("kv_heads")?,
        head_size: call.size("head_dim")?,
        scale: call.float("scale")?,
    })
}

pub(super) fn paged_attention(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call)?;
    let (heads, head_dim) = (shape.heads, shape.head_size);
    let cache = CacheShape {
        blocks: call.size("blocks")?,
        block_size: call.size("block_tokens")?,
        kv_heads: shape.kv_heads,
        head_size: head_dim,
    };
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (columns, num_splits) = (call.size("table_columns")?, call.size("num_splits")?);
    let query = call.span::<f32>("q", &[rows, heads, head_dim])?;
    let tables = call.span::<i32>("block_tables", &[sequences, columns])?;
    let query_start_loc = call.span::<i32>("query_start_loc", &[sequences.saturating_add(1)])?;
    let seq_lens = call.span::<i32>("seq_lens", &[sequences])?;
    let sinks = call.optional::<f32>("sinks", &[heads])?;
    let slopes = call.optional::<f32>("alibi_slopes", &[heads])?;
    let (window, softcap) = (call.size("window")?, call.float("softcap")?);
    let out = call.span::<f32>("out", &[rows, heads, head_dim])?;
    for_cache_element!(call, "keys", T => {
        let token = <T as ops::CacheElement>::token_elements(head_dim);
        let extents = [cache.blocks, cache.block_size, cache.kv_heads, token];
        let keys = call.span::<T>("keys", &extents)?;
        let values = call.span::<T>("values", &extents)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        unsafe {
            let batch = PagedBatch {
                query_start_loc: query_start_loc.read(),
                seq_lens: seq_lens.read(),
                block_tables: tables.read(),
                columns,
                num_splits,
            };
            let options = ScoreOptions {
                window,
                softcap,
                sinks: sinks.as_ref().map(|sinks| sinks.read()),
                alibi_slopes: slopes.as_ref().map(|slopes| slopes.read()),
            };
            ops::paged_attention(
                context,
                shape,
                options,
                cache,
                query.read(),
                keys.read(),
                values.read(),
                batch,
                out.write(),
            )
        }
        .map_err(op_error)
    })
}

pub(super) fn attention(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call)?;
    let (queries, tokens) = (call.size("queries")?, call.size("tokens")?);
    let (batch, causal) = (call.size("batch")?, call.flag("causal")?);
    let query = call.span::<f32>("q", &[batch, queries, shape.heads, shape.head_size])?;
    let out = call.span::<f32>("out", &[batch, queries, shape.heads, shape.head_size])?;
    let extents = [batch, tokens, shape.kv_heads, shape.head_size];
    for_element!(call, "keys", T => {
        let keys = call.span::<T>("keys", &extents)?;
        let values = call.span::<T>("values", &extents)?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        let (query, keys, values, out) =
            unsafe { (query.read(), keys.read(), values.read(), out.write()) };
        let (query_row, key_row) = (query.len() / batch.max(1), keys.len() / batch.max(1));
        for sequence in 0..batch {
            let rows = sequence * query_row..(sequence + 1) * query_row;
            let cached = sequence * key_row..(sequence + 1) * key_row;
            ops::prefill_attention(
                context,
                shape,
                causal,
                &query[rows.clone()],
                &keys[cached.clone()],
                &values[cached],
                &mut out[rows],
            )
            .map_err(op_error)?;
        }
        Ok(())
    })
}
