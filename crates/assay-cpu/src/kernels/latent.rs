//! Multi-head latent attention over a paged cache of latents.

use super::call::{Call, for_element, op_error};
use super::rope::layout;
use crate::ops::{self, Context, LatentNorm, LatentShape, PagedBatch, Rotary};
use assay_runtime::backend::Result;

fn shape(call: &Call<'_>, scale: f32) -> Result<LatentShape> {
    Ok(LatentShape {
        heads: call.size("heads")?,
        rank: call.size("rank")?,
        rotary_dim: call.size("rotary_dim")?,
        block_size: call.size("block_tokens")?,
        scale,
    })
}

pub(super) fn latent_write(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call, 1.0)?;
    let (rows, blocks) = (call.size("rows")?, call.size("blocks")?);
    let (rank, rotary_dim) = (shape.rank, shape.rotary_dim);
    let (layout, epsilon) = (layout(call)?, call.float("epsilon")?);
    let width = rank.saturating_add(rotary_dim);
    let kv = call.span::<f32>("kv", &[rows, width])?;
    let position = call.span::<i32>("positions", &[rows])?;
    let slot_mapping = call.span::<i32>("slot_mapping", &[rows])?;
    let table = call.span::<f32>("table", &[call.size("table_positions")?, rotary_dim])?;
    let norm = call.span::<f32>("norm", &[rank])?;
    let q_rope = call.span::<f32>("q_rope", &[rows, shape.heads, rotary_dim])?;
    for_element!(call, "cache", T => {
        let cache = call.span::<T>("cache", &[blocks, shape.block_size, width])?;
        if !call.runs() {
            return Ok(());
        }
        // SAFETY: the kernel runs, and operands do not overlap.
        unsafe {
            ops::latent_write(
                context,
                shape,
                LatentNorm {
                    weight: norm.read(),
                    epsilon,
                },
                Rotary {
                    table: table.read(),
                    rotary_dim,
                    layout,
                },
                kv.read(),
                position.read(),
                slot_mapping.read(),
                q_rope.write(),
                cache.write(),
            )
        }
        .map_err(op_error)
    })
}

pub(super) fn latent_attention(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = shape(call, call.float("scale")?)?;
    let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
    let (blocks, columns) = (call.size("blocks")?, call.size("table_columns")?);
    let (heads, rank) = (shape.heads, shape.rank);
    let q_latent = call.span::<f32>("q_latent", &[rows, heads, rank])?;
    let q_rope = call.span::<f32>("q_rope", &[rows, heads, shape.rotary_dim])?;
    let tables = call.span::<i32>("block_tables", &[sequences, columns])?;
    let query_start_loc = call.span::<i32>("query_start_loc", &[sequences.saturating_add(1)])?;
    let seq_lens = call.span::<i32>("seq_lens", &[sequences])?;
    let out = call.span::<f32>("out", &[rows, heads, rank])?;
    let width = rank.saturating_add(shape.rotary_dim);
    for_element!(call, "cache", T => {
        let cache = call.span::<T>("cache", &[blocks, shape.block_size, width])?;
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
                num_splits: 1,
            };
            ops::latent_attention(
                context,
                shape,
                q_latent.read(),
                q_rope.read(),
                cache.read(),
                batch,
                out.write(),
            )
        }
        .map_err(op_error)
    })
}
