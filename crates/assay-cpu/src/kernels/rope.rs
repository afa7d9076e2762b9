//! Rotation by position, alone and on the way into the cache.

use super::call::{Call, for_element, refused};
use crate::ops::{self, AttentionShape, CacheShape, Context, HeadSteps, RopePairs, Turns};
use assay_runtime::backend::Result;

fn pairs(call: &Call<'_>) -> Result<RopePairs> {
    Ok(match call.flag("interleaved")? {
        true => RopePairs::Neighbors,
        false => RopePairs::Halves,
    })
}

pub(super) fn rope(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, heads, head_dim) = (
        call.size("rows")?,
        call.size("heads")?,
        call.size("head_dim")?,
    );
    let (turned, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let pairs = pairs(call)?;
    let x = call.span::<f32>("x", &[rows, heads, head_dim])?;
    let at = call.span::<i32>("positions", &[rows])?;
    let table = call.span::<f32>("table", &[positions, turned])?;
    let out = call.span::<f32>("out", &[rows, heads, head_dim])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (x, at, table, out) = unsafe { (x.read(), at.read(), table.read(), out.write()) };
    let turns = Turns {
        table,
        dimensions: turned,
        pairs,
    };
    ops::rope(context, x, at, turns, heads, head_dim, out).map_err(refused)
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
    let (turned, positions) = (call.size("rotary_dim")?, call.size("table_positions")?);
    let (pairs, epsilon) = (pairs(call)?, call.float("epsilon")?);
    let (heads, kv_heads, head_dim) = (shape.heads, shape.kv_heads, shape.head_size);
    let all_heads = heads.saturating_add(kv_heads.saturating_mul(2));
    let qkv = call.span::<f32>("qkv", &[rows, all_heads, head_dim])?;
    let at = call.span::<i32>("positions", &[rows])?;
    let slots = call.span::<i32>("slot_mapping", &[rows])?;
    let table = call.optional::<f32>("table", &[positions, turned])?;
    let query_norm = call.optional::<f32>("query_norm", &[head_dim])?;
    let key_norm = call.optional::<f32>("key_norm", &[head_dim])?;
    let q_out = call.span::<f32>("q_out", &[rows, heads, head_dim])?;
    let extents = [cache.blocks, cache.block_size, kv_heads, head_dim];
    for_element!(call, "keys", T => {
        let keys = call.span::<T>("keys", &extents)?;
        let values = call.span::<T>("values", &extents)?;
        if !call.runs() {
            return Ok(());
        }
        let steps = HeadSteps {
            turns: table.map(|table| Turns {
                // SAFETY: the kernel runs.
                table: unsafe { table.read() },
                dimensions: turned,
                pairs,
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
                steps,
                qkv.read(),
                at.read(),
                slots.read(),
                keys.write(),
                values.write(),
                q_out.write(),
            )
        }
        .map_err(refused)
    })
}
