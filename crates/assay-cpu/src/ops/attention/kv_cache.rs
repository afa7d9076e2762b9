//! The layout of the paged KV cache.
//!
//! A block of keys is kv_heads x head_size x block_size: the same element of adjacent tokens is
//! contiguous, so that one vector holds sixteen keys and no sum runs across lanes. A block of values
//! is kv_heads x block_size x head_size, for the same reason: their weighted sum runs along the head.
//! Where tokens have scales, those of a head follow its elements in each block.

use crate::error::{Result, check_length, check_value};
use crate::ops::cache_element::CacheLoad;

/// The largest head size; kernels keep a head on their stack.
pub(crate) const MAX_HEAD_SIZE: usize = 512;

/// The shape of a cache of keys or of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Number of blocks.
    pub blocks: usize,
    /// Tokens per block.
    pub block_size: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
}

impl CacheShape {
    /// Elements of one head in one block, without scales.
    pub(crate) fn panel(&self) -> usize {
        self.block_size * self.head_size
    }

    /// The offset of a head in a block.
    #[inline(always)]
    pub(crate) fn at<T: CacheLoad>(&self, block: usize, kv_head: usize) -> usize {
        let scales = self.block_size * T::SCALE_ELEMENTS;
        (block * self.kv_heads + kv_head) * (self.panel() + scales)
    }

    /// The offset of a token's scale from that of its head in a block.
    #[inline(always)]
    pub(crate) fn scale_at<T: CacheLoad>(&self, offset: usize) -> usize {
        self.panel() + offset * T::SCALE_ELEMENTS
    }

    /// Token slots in all blocks.
    pub(crate) fn slots(&self) -> usize {
        self.blocks * self.block_size
    }

    pub(crate) fn check<T: CacheLoad>(
        &self,
        operation: &'static str,
        argument: &'static str,
        cache: &[T],
    ) -> Result<()> {
        let valid = self.block_size > 0 && self.kv_heads > 0;
        check_value(
            operation,
            "cache",
            valid && self.head_size > 0,
            "blocks of at least 1 token, 1 head and 1 number",
            format_args!(
                "{} tokens of {} heads of {}",
                self.block_size, self.kv_heads, self.head_size
            ),
        )?;
        let fits = self.head_size <= MAX_HEAD_SIZE;
        let most = format_args!("at most {MAX_HEAD_SIZE}");
        check_value(operation, "head_size", fits, most, self.head_size)?;
        let token = self.head_size + T::SCALE_ELEMENTS;
        let shape = [self.blocks, self.block_size, self.kv_heads, token];
        check_length(operation, argument, cache.len(), &shape)
    }
}
