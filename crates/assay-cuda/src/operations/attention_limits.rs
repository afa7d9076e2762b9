//! The limits of the attention kernels, and the strides of the KV cache.

use super::call::{Call, float_type_name, int};
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{KernelArgument, Result};

/// The head dimensions that the attention kernels support.
pub const HEAD_DIMS: [u64; 4] = [64, 128, 192, 256];
/// The tokens of a KV cache block are a multiple of this.
pub const BLOCK_TOKENS_MULTIPLE: u64 = 16;
/// A number that is a flag.
pub(super) fn flag(call: &Call<'_>, name: &str) -> Result<bool> {
    Ok(call.integer(name)? != 0)
}

/// The shape of a paged KV cache, of keys or of values.
#[derive(Clone, Copy)]
pub(super) struct CacheShape {
    pub blocks: u64,
    pub block_tokens: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
}

impl CacheShape {
    pub fn read(call: &Call<'_>) -> Result<Self> {
        Ok(CacheShape {
            blocks: call.size("blocks")?,
            block_tokens: call.size("block_tokens")?,
            kv_heads: call.size("kv_heads")?,
            head_dim: call.size("head_dim")?,
        })
    }

    /// The strides of blocks, heads and tokens, in elements. Where tokens have scales, those of a head
    /// follow its elements in each block.
    pub fn strides(self, format: ElementFormat) -> [u64; 3] {
        let head = self.block_tokens * (self.head_dim + scale_elements(format));
        [self.kv_heads * head, head, self.head_dim]
    }

    /// The same as kernel arguments.
    pub fn stride_arguments(self, format: ElementFormat) -> [KernelArgument; 3] {
        let [block, head, token] = self.strides(format);
        [KernelArgument::I64(block.cast_signed()), int(head), int(token)]
    }

    /// The keys and values of a call, and the name of their type in the kernels' sources. They are of
    /// 16 bits as `like`, or of 8.
    pub fn operands(
        self,
        call: &Call<'_>,
        like: Option<ElementFormat>,
    ) -> Result<(Operand, Operand, &'static str)> {
        let format = call.raw("keys")?.format;
        let token = self.head_dim + scale_elements(format);
        let extents = [self.blocks, self.block_tokens, self.kv_heads, token];
        let type_name = match format {
            ElementFormat::F8E4M3 => Some("e4m3"),
            ElementFormat::I8 => Some("int8"),
            format if like.is_none_or(|like| like == format) => float_type_name(format),
            _ => None,
        };
        let Some(type_name) = type_name else {
            return Err(call.error("keys as q, of f8_e4m3 or of i8", format));
        };
        let keys = call.operand("keys", &extents)?;
        Ok((keys, call.typed("values", format, &extents)?, type_name))
    }
}

/// Whether the elements of a KV cache are of 8 bits.
pub(super) fn is_quantized(format: ElementFormat) -> bool {
    matches!(format, ElementFormat::F8E4M3 | ElementFormat::I8)
}

/// Elements that hold the scale of a token of a head.
fn scale_elements(format: ElementFormat) -> u64 {
    match format {
        ElementFormat::I8 => 4,
        _ => 0,
    }
}

/// Refuses blocks that a tile of tokens would overrun.
pub(super) fn check_block_tokens(call: &Call<'_>, block_tokens: u64) -> Result<()> {
    if block_tokens.is_multiple_of(BLOCK_TOKENS_MULTIPLE) {
        return Ok(());
    }
    let expected = format_args!("blocks of {BLOCK_TOKENS_MULTIPLE} tokens, or of a multiple");
    Err(call.error(expected, block_tokens))
}

/// Refuses heads and types that the attention kernels do not support.
pub(super) fn check_heads(
    call: &Call<'_>,
    q: Operand,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
) -> Result<()> {
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let got = format_args!("{heads} and {kv_heads}");
        return Err(call.error("heads in groups of kv_heads", got));
    }
    if !HEAD_DIMS.contains(&head_dim) {
        return Err(call.error(format_args!("heads of one of {HEAD_DIMS:?}"), head_dim));
    }
    match q.format {
        ElementFormat::F16 | ElementFormat::Bf16 => Ok(()),
        other => Err(call.error("q of f16 or bf16", other)),
    }
}
