//! Head counts and sizes of attention.

use crate::error::{Result, check_length, check_value};

/// Head counts, head size and scale of attention.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// KV heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// The factor on scores, usually 1 / sqrt(head_size).
    pub scale: f32,
}

/// Which tokens a query sees, and what is done to its scores besides scaling.
#[derive(Clone, Copy, Default, Debug)]
pub struct ScoreOptions<'a> {
    /// Tokens that a query sees, itself included (sliding window); 0: all before it too.
    pub window: usize,
    /// Bounds scaled scores: cap * tanh(score / cap); 0: no bound.
    pub softcap: f32,
    /// A logit for each head that takes part in the softmax without a value (attention sink).
    pub sinks: Option<&'a [f32]>,
    /// For each head, what a score loses for each token between key and query (ALiBi).
    pub alibi_slopes: Option<&'a [f32]>,
}

impl ScoreOptions<'_> {
    pub(crate) fn check(&self, operation: &'static str, heads: usize) -> Result<()> {
        let valid = self.softcap >= 0.0 && self.softcap.is_finite();
        check_value(operation, "softcap", valid, "0 or more", self.softcap)?;
        for (argument, values) in [("sinks", self.sinks), ("alibi_slopes", self.alibi_slopes)] {
            if let Some(values) = values {
                check_length(operation, argument, values.len(), &[heads])?;
            }
        }
        Ok(())
    }

    /// The first token that a query sees, of those before the end `visible`.
    #[inline(always)]
    pub(crate) fn first_visible(&self, visible: usize) -> usize {
        match self.window {
            0 => 0,
            window => visible.saturating_sub(window),
        }
    }
}

impl AttentionShape {
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        check_value(
            operation,
            "heads",
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads) && self.heads > 0,
            format_args!("a multiple of the {} heads of keys", self.kv_heads),
            self.heads,
        )?;
        let valid = self.head_size > 0;
        check_value(operation, "head_size", valid, "at least 1", self.head_size)
    }

    /// Query heads per KV head.
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
}

/// Heads and widths of latent attention.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatentShape {
    /// Query heads.
    pub heads: usize,
    /// Elements of a latent.
    pub rank: usize,
    /// Elements of the shared key behind it.
    pub rotary_dim: usize,
    /// Tokens of a block of the cache.
    pub block_size: usize,
    /// The factor on scores.
    pub scale: f32,
}

impl LatentShape {
    /// Elements of a row of the cache.
    pub fn width(&self) -> usize {
        self.rank + self.rotary_dim
    }

    /// Checks the shape; returns how many blocks a cache of this many elements has.
    pub(crate) fn check(&self, operation: &'static str, elements: usize) -> Result<usize> {
        let valid = self.heads > 0 && self.rank > 0 && self.rotary_dim > 0 && self.block_size > 0;
        check_value(
            operation,
            "shape",
            valid,
            "heads, rank, rotary_dim and block_tokens of at least 1",
            format_args!(
                "{} heads of {} and {}, blocks of {}",
                self.heads, self.rank, self.rotary_dim, self.block_size
            ),
        )?;
        let block = self.block_size.saturating_mul(self.width());
        let blocks = elements / block;
        check_length(operation, "cache", elements, &[blocks, block])?;
        Ok(blocks)
    }
}
