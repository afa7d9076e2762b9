//! RMSNorm of latents, RoPE and the write to the cache of multi-head latent attention, fused.

use super::rotary::Rotary;
use super::write::check_slot_mapping;
use crate::context::Context;
use crate::error::{Result, check_index, check_length, check_value};
use crate::ops::attention::LatentShape;
use crate::ops::dispatch::Element;
use crate::threads::DisjointSlice;

/// The RMSNorm of latents.
#[derive(Clone, Copy, Debug)]
pub struct LatentNorm<'a> {
    /// One weight for each element of a latent.
    pub weight: &'a [f32],
    /// Added to the mean square.
    pub epsilon: f32,
}

/// Writes rows of latent and shared key to their slots of the cache, the latent normalized and the key
/// rotated, and rotates the rotary part of every query head in place; a slot of -1 skips a row.
///
/// `kv` is rows x (rank + rotary_dim) and `q_rope` rows x heads x rotary_dim.
#[allow(clippy::too_many_arguments)] // Five arrays and what is done to them: a struct would only rename them.
pub fn latent_write<T: Element>(
    context: Context,
    shape: LatentShape,
    norm: LatentNorm,
    rotary: Rotary,
    kv: &[f32],
    positions: &[i32],
    slot_mapping: &[i32],
    q_rope: &mut [f32],
    cache: &mut [T],
) -> Result<()> {
    let operation = "latent_write";
    let blocks = shape.check(operation, cache.len())?;
    let (rows, width) = (slot_mapping.len(), shape.width());
    let heads = shape.heads * shape.rotary_dim;
    check_length(operation, "kv", kv.len(), &[rows, width])?;
    check_length(operation, "positions", positions.len(), &[rows])?;
    check_length(operation, "q_rope", q_rope.len(), &[rows, heads])?;
    check_length(operation, "norm", norm.weight.len(), &[shape.rank])?;
    let valid = norm.epsilon >= 0.0;
    check_value(operation, "epsilon", valid, "at least 0", norm.epsilon)?;
    check_slot_mapping(operation, slot_mapping, blocks * shape.block_size)?;
    let limit = rotary.check(operation, shape.rotary_dim)?;
    for (position, slot) in positions.iter().zip(slot_mapping) {
        if *slot != -1 {
            check_index(operation, "positions", i64::from(*position), limit)?;
        }
    }
    let (q_rope, cache) = (DisjointSlice::new(q_rope), DisjointSlice::new(cache));
    let least = 8_192_usize.div_ceil(width + heads);
    context.threads.parallel_for(rows, least, &|range| {
        let mut key = vec![0.0; shape.rotary_dim];
        for row in range {
            let Ok(slot) = usize::try_from(slot_mapping[row]) else {
                continue;
            };
            let position = positions[row] as usize;
            // SAFETY: rows do not overlap.
            let queries = unsafe { q_rope.slice_mut(row * heads..(row + 1) * heads) };
            for head in queries.chunks_exact_mut(shape.rotary_dim) {
                rotary.rotate(head, position);
            }
            let (latent, shared) = kv[row * width..][..width].split_at(shape.rank);
            key.copy_from_slice(shared);
            rotary.rotate(&mut key, position);
            let square: f32 = latent.iter().map(|value| value * value).sum();
            let factor = 1.0 / (square / shape.rank as f32 + norm.epsilon).sqrt();
            let normed = latent.iter().zip(norm.weight);
            let normed = normed.map(|(value, weight)| value * factor * weight);
            // SAFETY: slots are distinct.
            let out = unsafe { cache.slice_mut(slot * width..(slot + 1) * width) };
            for (out, value) in out.iter_mut().zip(normed.chain(key.iter().copied())) {
                *out = T::from(value);
            }
        }
    });
    Ok(())
}
