//! Prefill attention: many queries over contiguous keys and values.

use super::bf16_tiled::bf16_attention;
use super::prefill_kernel::{PrefillTile, QUERY_TILE};
use super::shape::AttentionShape;
use super::tile_operands::Operands;
use super::tiled::tiled_attention;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::ops::dispatch::Element;
use crate::threads::DisjointSlice;

/// Writes attention to `out`. With a causal mask, query t of T attends to the first S - T + t + 1 of S
/// keys; otherwise to all of them.
///
/// Over bfloat16, without a mask and on AMX, queries and weights of many queries are rounded to bfloat16 too.
///
/// `query` and `out` are T x heads x head_size, `key` and `value` S x kv_heads x head_size.
pub fn prefill_attention<T: Element>(
    context: Context,
    shape: AttentionShape,
    causal: bool,
    query: &[f32],
    key: &[T],
    value: &[T],
    out: &mut [f32],
) -> Result<()> {
    let operation = "prefill_attention";
    shape.check(operation)?;
    let (width, kv_width) = (shape.heads * shape.head_size, shape.kv_heads * shape.head_size);
    let (queries, keys) = (query.len() / width, key.len() / kv_width);
    check_length(operation, "query", query.len(), &[queries, width])?;
    check_length(operation, "key", key.len(), &[keys, kv_width])?;
    check_length(operation, "value", value.len(), &[keys, kv_width])?;
    check_length(operation, "out", out.len(), &[queries, width])?;
    check_value(
        operation,
        "key",
        keys >= if causal { queries } else { queries.min(1) },
        format_args!("at least {queries} rows, one for each query"),
        keys,
    )?;
    if let (Some(amx), false, Some(key), Some(value)) =
        (context.level.amx(), causal, T::as_floats(key), T::as_floats(value))
    {
        let operands = Operands { shape, query, key, value };
        if operands.fit_tiles() && tiled_attention(context, amx, operands, out) {
            return Ok(());
        }
    }
    if let (Some(amx), false, Some(key), Some(value)) =
        (context.level.amx(), causal, T::as_bf16_bits(key), T::as_bf16_bits(value))
    {
        let operands = Operands { shape, query, key, value };
        if operands.fit_tiles() {
            bf16_attention(context, amx, operands, out);
            return Ok(());
        }
    }
    let out = DisjointSlice::new(out);
    // The last queries have the most keys: they are scheduled first, for load balance.
    let tiles = queries.div_ceil(QUERY_TILE);
    context.threads.run(tiles * shape.heads, &|task| {
        let (from_top, head) = (task / shape.heads, task % shape.heads);
        let first = (tiles - 1 - from_top) * QUERY_TILE;
        let tile = PrefillTile {
            shape,
            query,
            key,
            value,
            first,
            last: (first + QUERY_TILE).min(queries),
            before: keys.saturating_sub(queries),
            keys,
            causal,
            head,
            out: &out,
        };
        T::prefill_attention(context.level, tile);
    });
    Ok(())
}
