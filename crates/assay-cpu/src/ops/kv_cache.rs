//! Keys and values in blocks that any sequence may hold.

use super::element::Element;
use super::{AttentionShape, Context};
use crate::error::{Result, check_index, check_length, check_value};
use crate::threads::Disjoint;

/// Sizes of a cache of keys, or of values: blocks x block_size x kv_heads x head_size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Blocks in all.
    pub blocks: usize,
    /// Tokens in a block.
    pub block_size: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_size: usize,
}

impl CacheShape {
    /// Numbers of one token.
    pub(super) fn width(&self) -> usize {
        self.kv_heads * self.head_size
    }

    pub(super) fn check<T>(
        &self,
        operation: &'static str,
        argument: &'static str,
        cache: &[T],
    ) -> Result<()> {
        let shape = [self.blocks, self.block_size, self.kv_heads, self.head_size];
        check_length(operation, argument, cache.len(), &shape)
    }

    pub(super) fn check_heads(&self, operation: &'static str, heads: AttentionShape) -> Result<()> {
        let own = (self.kv_heads, self.head_size);
        let asked = (heads.kv_heads, heads.head_size);
        check_value(
            operation,
            "cache",
            own == asked,
            format_args!("{} heads of {}", asked.0, asked.1),
            format_args!("{} heads of {}", own.0, own.1),
        )
    }
}

/// Writes keys, or values, of new tokens to their slots; a slot of -1 leaves a token out.
///
/// Slot s is token s mod block_size of block s / block_size. Slots differ from each other.
pub fn write_cache<T: Element>(
    context: Context,
    shape: CacheShape,
    rows: &[f32],
    slots: &[i64],
    cache: &mut [T],
) -> Result<()> {
    let operation = "write_cache";
    let width = shape.width();
    shape.check(operation, "cache", cache)?;
    check_length(operation, "rows", rows.len(), &[slots.len(), width])?;
    for slot in slots.iter().filter(|slot| **slot != -1) {
        check_index(operation, "slots", *slot, shape.blocks * shape.block_size)?;
    }
    if width == 0 {
        return Ok(());
    }
    // Two tokens in one slot would be a race between threads, and one of them lost in any case.
    let mut sorted: Vec<i64> = slots.iter().copied().filter(|slot| *slot != -1).collect();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
    let got = twice.map_or(-1, |pair| pair[0]);
    let unique = twice.is_none();
    check_value(
        operation,
        "slots",
        unique,
        "each slot once",
        format_args!("{got} twice"),
    )?;
    let cache = Disjoint::new(cache);
    let least = 8_192_usize.div_ceil(width);
    context.threads.ranges(slots.len(), least, &|tokens| {
        for token in tokens {
            let Ok(slot) = usize::try_from(slots[token]) else {
                continue;
            };
            // SAFETY: slots differ.
            let to = unsafe { cache.part(slot * width..(slot + 1) * width) };
            for (to, from) in to.iter_mut().zip(&rows[token * width..]) {
                *to = T::from(*from);
            }
        }
    });
    Ok(())
}
