//! Head counts and sizes of attention.

use crate::error::{Result, check_value};

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
