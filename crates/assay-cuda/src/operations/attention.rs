//! Attention over a contiguous or paged KV cache.
//!
//! The paged cache is blocks of heads of tokens: a block's tokens of one head are contiguous, as
//! one CTA reads them.

use super::attention_decode::DecodeAttention;
use super::attention_limits::{CacheShape, check_block_tokens, check_heads, flag};
use super::attention_prefill::{KvCache, PagedMetadata, PrefillAttention};
use super::attention_scores::ScoreOptions;
use super::call::Call;
use assay_operations::ElementFormat::I32;
use assay_runtime::backend::Result;

/// Attention over contiguous keys and values: tokens of heads.
pub(super) fn attention(call: &Call<'_>) -> Result<()> {
    let (queries, tokens) = (call.size("queries")?, call.size("tokens")?);
    let (heads, kv_heads) = (call.size("heads")?, call.size("kv_heads")?);
    let (batch, head_dim) = (call.size("batch")?, call.size("head_dim")?);
    let q = call.operand("q", &[batch, queries, heads, head_dim])?;
    let keys = call.typed("keys", q.format, &[batch, tokens, kv_heads, head_dim])?;
    let values = call.typed("values", q.format, &[batch, tokens, kv_heads, head_dim])?;
    let out = call.typed("out", q.format, &[batch, queries, heads, head_dim])?;
    check_heads(call, q, heads, kv_heads, head_dim)?;
    if batch * queries * heads == 0 {
        return Ok(());
    }
    if tokens == 0 {
        return call.queue.fill(out.pointer, 0, batch * queries * heads * head_dim * 2);
    }
    let token = kv_heads * head_dim;
    let prefill = PrefillAttention {
        q,
        out,
        cache: KvCache {
            keys,
            values,
            blocks: batch,
            block_tokens: tokens,
            strides: [tokens * token, head_dim, token],
            element: call.float_type("q", q)?,
        },
        metadata: None,
        rows: batch * queries,
        queries,
        sequences: batch,
        heads,
        kv_heads,
        head_dim,
        causal: flag(call, "causal")?,
        element: call.float_type("q", q)?,
        scale: call.float("scale")?,
        options: ScoreOptions::default(),
    };
    prefill.launch(call)
}

pub(super) fn paged_attention(call: &Call<'_>) -> Result<()> {
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (heads, kv_heads) = (call.size("heads")?, call.size("kv_heads")?);
    let cache = CacheShape::read(call)?;
    let (head_dim, block_tokens, blocks) = (cache.head_dim, cache.block_tokens, cache.blocks);
    let table_columns = call.size("table_columns")?;
    let q = call.operand("q", &[rows, heads, head_dim])?;
    let (keys, values, cache_type) = cache.operands(call, Some(q.format))?;
    let block_tables = call.typed("block_tables", I32, &[sequences, table_columns])?;
    let query_start_loc = call.typed("query_start_loc", I32, &[sequences + 1])?;
    let seq_lens = call.typed("seq_lens", I32, &[sequences])?;
    let out = call.typed("out", q.format, &[rows, heads, head_dim])?;
    if rows * heads * head_dim == 0 {
        return Ok(());
    }
    check_heads(call, q, heads, kv_heads, head_dim)?;
    check_block_tokens(call, block_tokens)?;
    let max_query_len = call.size("max_query_len")?;
    let options = ScoreOptions::read(call, heads)?;
    // Not the number of rows: for batch invariance a caller passes more than 1 for single rows too,
    // so that all rows take the same kernel.
    if max_query_len > 1 {
        if sequences * blocks == 0 {
            return call.queue.fill(out.pointer, 0, rows * heads * head_dim * 2);
        }
        let prefill = PrefillAttention {
            q,
            out,
            cache: KvCache {
                keys,
                values,
                blocks,
                block_tokens,
                strides: cache.strides(keys.format),
                element: cache_type,
            },
            metadata: Some(PagedMetadata {
                block_tables,
                table_columns,
                query_start_loc,
                seq_lens,
            }),
            rows,
            queries: max_query_len.min(rows),
            sequences,
            heads,
            kv_heads,
            head_dim,
            causal: true,
            element: call.float_type("q", q)?,
            scale: call.float("scale")?,
            options,
        };
        return prefill.launch(call);
    }
    let decode = DecodeAttention {
        rows,
        sequences,
        heads,
        cache,
        cache_type,
        table_columns,
        q,
        keys,
        values,
        block_tables,
        query_start_loc,
        seq_lens,
        out,
        options,
        rope: None,
    };
    decode.launch(call)
}
