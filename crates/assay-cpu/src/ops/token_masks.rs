//! Masks of logits: tokens that may not be sampled.

use crate::context::Context;
use crate::error::{Result, check_length};
use crate::threads::DisjointSlice;

/// Tokens of a word of a mask.
const WORD: usize = i32::BITS as usize;

/// Sets logits to minus infinity where bit `token % 32` of word `token / 32` of the row is not set.
pub fn mask_logits(
    context: Context,
    logits: &mut [f32],
    columns: usize,
    allowed: &[i32],
) -> Result<()> {
    let operation = "mask_logits";
    let rows = logits.len().checked_div(columns).unwrap_or(0);
    let words = columns.div_ceil(WORD);
    check_length(operation, "logits", logits.len(), &[rows, columns])?;
    check_length(operation, "allowed", allowed.len(), &[rows, words])?;
    let logits = DisjointSlice::new(logits);
    context.threads.parallel_for(rows, 1, &|range| {
        for row in range {
            // SAFETY: rows do not overlap.
            let logits = unsafe { logits.slice_mut(row * columns..(row + 1) * columns) };
            let allowed = &allowed[row * words..(row + 1) * words];
            for (tokens, &word) in logits.chunks_mut(WORD).zip(allowed) {
                match word {
                    -1 => {}
                    0 => tokens.fill(f32::NEG_INFINITY),
                    _ => {
                        for (bit, logit) in tokens.iter_mut().enumerate() {
                            if word >> bit & 1 == 0 {
                                *logit = f32::NEG_INFINITY;
                            }
                        }
                    }
                }
            }
        }
    });
    Ok(())
}
