//! The limits of the attention kernels, and the strides of the KV cache.

use super::call::{Call, int};
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

/// The strides of blocks, heads and tokens of the KV cache, in elements.
pub(super) fn kv_strides(block_tokens: u64, kv_heads: u64, head_dim: u64) -> [u64; 3] {
    let head = block_tokens * head_dim;
    [kv_heads * head, head, head_dim]
}

/// The same as kernel arguments.
pub(super) fn stride_arguments(
    block_tokens: u64,
    kv_heads: u64,
    head_dim: u64,
) -> [KernelArgument; 3] {
    let [block, head, token] = kv_strides(block_tokens, kv_heads, head_dim);
    [
        KernelArgument::I64(block.cast_signed()),
        int(head),
        int(token),
    ]
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
