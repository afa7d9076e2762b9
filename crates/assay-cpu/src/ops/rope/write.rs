//! QK norm, RoPE and the write to the KV cache for new tokens, fused.

use super::rotary::Rotary;
use crate::context::Context;
use crate::error::{Result, check_index, check_length, check_value};
use crate::ops::attention::{AttentionShape, CacheShape, MAX_HEAD_SIZE};
use crate::ops::cache_element::CacheLoad;
use crate::ops::dispatch::CacheElement;
use crate::ops::element;
use crate::simd::{Kernel, Level, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// What is applied to the heads of queries and keys.
#[derive(Clone, Copy, Default, Debug)]
pub struct HeadTransform<'a> {
    /// RoPE.
    pub rotary: Option<Rotary<'a>>,
    /// Weights of an RMSNorm of each query head, applied before RoPE.
    pub query_norm: Option<&'a [f32]>,
    /// The same for each key head.
    pub key_norm: Option<&'a [f32]>,
    /// The epsilon of the norms.
    pub epsilon: f32,
}

thread_local! {
    /// Sorted slots, to find duplicates.
    static SORTED: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn check_slot_mapping(
    operation: &'static str,
    slot_mapping: &[i32],
    limit: usize,
) -> Result<()> {
    for slot in slot_mapping.iter().filter(|slot| **slot != -1) {
        check_index(operation, "slot_mapping", i64::from(*slot), limit)?;
    }
    if slot_mapping.len() < 2 {
        return Ok(());
    }
    // Two tokens in one slot would be a data race, and one of them would be lost.
    SORTED.with_borrow_mut(|sorted| {
        sorted.clear();
        sorted.extend(slot_mapping.iter().filter(|slot| **slot != -1));
        sorted.sort_unstable();
        let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
        let got = twice.map_or(-1, |pair| pair[0]);
        let got = format_args!("{got} twice");
        check_value(operation, "slot_mapping", twice.is_none(), "each slot once", got)
    })
}

/// Splits rows of fused queries, keys and values; writes queries to `q_out`, and keys and values to
/// their slots of the cache.
///
/// Slot s is token s mod block_size of block s / block_size; a slot of -1 skips a row, and its
/// queries become zeros.
#[allow(clippy::too_many_arguments)] // Two shapes, six arrays: a struct would only rename them.
pub fn rope_write<T: CacheElement>(
    context: Context,
    shape: AttentionShape,
    cache: CacheShape,
    transform: HeadTransform,
    qkv: &[f32],
    positions: &[i32],
    slot_mapping: &[i32],
    keys: &mut [T],
    values: &mut [T],
    q_out: &mut [f32],
) -> Result<()> {
    let operation = "rope_write";
    shape.check(operation)?;
    cache.check(operation, "keys", keys)?;
    cache.check(operation, "values", values)?;
    let rows = slot_mapping.len();
    let (width, kv_width) = (shape.heads * shape.head_size, shape.kv_heads * shape.head_size);
    check_length(operation, "qkv", qkv.len(), &[rows, width + 2 * kv_width])?;
    check_length(operation, "positions", positions.len(), &[rows])?;
    check_length(operation, "q_out", q_out.len(), &[rows, width])?;
    for (argument, norm) in [("query_norm", transform.query_norm), ("key_norm", transform.key_norm)]
    {
        if let Some(norm) = norm {
            check_length(operation, argument, norm.len(), &[shape.head_size])?;
        }
    }
    check_slot_mapping(operation, slot_mapping, cache.slots())?;
    if let Some(rotary) = transform.rotary {
        let limit = rotary.check(operation, shape.head_size)?;
        for (position, _) in positions.iter().zip(slot_mapping).filter(|(_, slot)| **slot != -1) {
            check_index(operation, "positions", i64::from(*position), limit)?;
        }
    }
    let (keys, values, q_out) =
        (DisjointSlice::new(keys), DisjointSlice::new(values), DisjointSlice::new(q_out));
    let least = 8_192_usize.div_ceil(width + 2 * kv_width);
    context.threads.parallel_for(rows, least, &|range| {
        for row in range {
            // SAFETY: rows do not overlap.
            let q_out = unsafe { q_out.slice_mut(row * width..(row + 1) * width) };
            let Ok(slot) = usize::try_from(slot_mapping[row]) else {
                q_out.fill(0.0);
                continue;
            };
            let source = &qkv[row * (width + 2 * kv_width)..][..width + 2 * kv_width];
            let (query, rest) = source.split_at(width);
            let (key, value) = rest.split_at(kv_width);
            let position = positions[row] as usize;
            q_out.copy_from_slice(query);
            for head in q_out.chunks_exact_mut(shape.head_size) {
                transform.apply(context.level, head, transform.query_norm, position);
            }
            let (block, offset) = (slot / cache.block_size, slot % cache.block_size);
            let heads = key.chunks_exact(shape.head_size).zip(value.chunks_exact(shape.head_size));
            for (kv_head, (key, value)) in heads.enumerate() {
                let mut rotated = [0.0; MAX_HEAD_SIZE];
                let rotated = &mut rotated[..shape.head_size];
                rotated.copy_from_slice(key);
                transform.apply(context.level, rotated, transform.key_norm, position);
                let (at, scale_at) = (cache.at::<T>(block, kv_head), cache.scale_at::<T>(offset));
                let scales = at + scale_at..at + scale_at + T::SCALE_ELEMENTS;
                let factor = store_scale(&keys, scales.clone(), rotated);
                for (number, value) in rotated.iter().enumerate() {
                    let at = at + number * cache.block_size + offset;
                    // SAFETY: slots are distinct, and so are the elements of a slot.
                    unsafe { keys.slice_mut(at..at + 1)[0] = T::from(value * factor) };
                }
                let factor = store_scale(&values, scales, value);
                let at = at + offset * shape.head_size;
                // SAFETY: slots are distinct.
                let out = unsafe { values.slice_mut(at..at + shape.head_size) };
                for (out, value) in out.iter_mut().zip(value) {
                    *out = T::from(value * factor);
                }
            }
        }
    });
    Ok(())
}

/// Stores the scale of a head of one token, where the cache has scales; returns what the head's
/// numbers are multiplied by.
fn store_scale<T: CacheLoad>(
    cache: &DisjointSlice<'_, T>,
    range: std::ops::Range<usize>,
    head: &[f32],
) -> f32 {
    if T::SCALE_ELEMENTS == 0 {
        return 1.0;
    }
    let scale = T::scale_for(head);
    // SAFETY: slots are distinct, and so are their scales.
    T::store_scale(scale, unsafe { cache.slice_mut(range) });
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

impl HeadTransform<'_> {
    fn apply(&self, level: Level, head: &mut [f32], norm: Option<&[f32]>, position: usize) {
        if let Some(weight) = norm {
            let square = level.run(Square(head)) / head.len() as f32;
            let factor = 1.0 / (square + self.epsilon).sqrt();
            for (value, weight) in head.iter_mut().zip(weight) {
                *value = *value * factor * weight;
            }
        }
        if let Some(rotary) = self.rotary {
            rotary.rotate(head, position);
        }
    }
}

/// The sum of squares of a head.
struct Square<'a>(&'a [f32]);

impl Kernel for Square<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f32 {
        element::dot(v, self.0, self.0)
    }
}
