//! Rotary position embedding, alone and fused with the write to the KV cache.

use super::call::{Call, for_cache_element, op_error};
use crate::ops::{self, AttentionShape, CacheShape, Context, HeadTransform, RopeLayout, Rotary};
use assay_runtime::backend::Result;

pub(super) fn layout(call: &Call<'_>) -> Result<RopeLayout> {
    Ok(match call.flag("interleaved")? {
        true => RopeLayout::Interleaved,
        false => RopeLayout::Halves,
    })
}

pub(super) fn rope(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, heads, head_dim) = (call.size("rows")?, call.size("heads")?, call.size("head_dim")?);
    let (rotary_dim, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let layout = layout(call)?;
    let x = call.span::<f32>("x", &[rows, heads, head_dim])?;
    let position = call.span::<i32>("positions", &[rows])?;
    let table = call.span::<f32>("table", &[positions, rotary_dim])?;
    let out = call.span::<f32>("out", &[rows, heads, head_dim])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, position, table, out) =
        unsafe { (x.read(), position.read(), table.read(), out.write()) };
    let rotary = Rotary { table, rotary_dim, layout };
    ops::rope(context, x, position, rotary, heads, head_dim, out).map_err(op_error)
}

pub(super) fn rope_write(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = AttentionShape {
        heads: call.size("heads")?,
        kv_heads: call.size("kv_heads")?,
        head_size: call.size("head_dim")?,
        scale: 1.0,
    };
    let cache = CacheShape {
        blocks: call.size("blocks")?,
        block_size: call.size("block_tokens")?,
        kv_heads: shape.kv_heads,
        head_size: shape.head_size,
    };
    let rows = call.size("rows")?;
    let (rotary_dim, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let (layout, epsilon) = (layout(call)?, call.float("epsilon")?);
    let (heads, kv_heads, head_dim) = (shape.heads, shape.kv_heads, shape.head_size);
    let all_heads = heads.saturating_add(kv_heads.saturating_mul(2));
    let qkv = call.span::<f32>("qkv", &[rows, all_heads, head_dim])?;
    let position = call.span::<i32>("positions", &[rows])?;
    let slot_mapping = call.span::<i32>("slot_mapping", &[rows])?;
    let table = call.optional::<f32>("table", &[positions, rotary_dim])?;
    let query_norm = call.optional::<f32>("query_norm", &[head_dim])?;
    let key_norm = call.optional::<f32>("key_norm", &[head_dim])?;
    let q_out = call.span::<f32>("q_out", &[rows, heads, head_dim])?;
    for_cache_element!(call, "keys", T => {
        let token = <T as ops::CacheElement>::token_elements(head_dim);
        let extents = [cache.blocks, cache.block_size, kv_heads, token];
        let keys = call.span::<T>("keys", &extents)?;
        let values = call.span::<T>("values", &extents)?;
        if !call.runs() {
            return Ok(());
        }
        let transform = HeadTransform {
            rotary: table.map(|table| Rotary {
                // SAFETY: the kernel runs.
                table: unsafe { table.read() },
                rotary_dim,
                layout,
            }),
            // SAFETY: the same.
            query_norm: query_norm.map(|norm| unsafe { norm.read() }),
            // SAFETY: the same.
            key_norm: key_norm.map(|norm| unsafe { norm.read() }),
            epsilon,
        };
        // SAFETY: the kernel runs, and operands do not overlap.
        unsafe {
            ops::rope_write(
                context,
                shape,
                cache,
                transform,
                qkv.read(),
                position.read(),
                slot_mapping.read(),
                keys.write(),
                values.write(),
                q_out.write(),
            )
        }
        .map_err(op_error)
    })
}
