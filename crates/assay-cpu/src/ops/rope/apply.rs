//! Rotary position embedding of whole arrays.

use super::rotary::Rotary;
use crate::context::Context;
use crate::error::{Result, check_index, check_length};
use crate::threads::DisjointSlice;

/// Writes `x`, of shape tokens x heads x head_size, to `out` with the first `rotary_dim` elements of
/// every head rotated.
pub fn rope(
    context: Context,
    x: &[f32],
    positions: &[i32],
    rotary: Rotary,
    heads: usize,
    head_size: usize,
    out: &mut [f32],
) -> Result<()> {
    let operation = "rope";
    let shape = [positions.len(), heads, head_size];
    check_length(operation, "x", x.len(), &shape)?;
    check_length(operation, "out", out.len(), &shape)?;
    let limit = rotary.check(operation, head_size)?;
    for position in positions {
        check_index(operation, "positions", i64::from(*position), limit)?;
    }
    let width = heads * head_size;
    let out = DisjointSlice::new(out);
    let least = 8_192_usize.div_ceil(width.max(1));
    context.threads.parallel_for(positions.len(), least, &|tokens| {
        for token in tokens {
            // SAFETY: tokens do not overlap.
            let out = unsafe { out.slice_mut(token * width..(token + 1) * width) };
            out.copy_from_slice(&x[token * width..(token + 1) * width]);
            for head in out.chunks_exact_mut(head_size) {
                rotary.rotate(head, positions[token] as usize);
            }
        }
    });
    Ok(())
}
