//! Repetition, presence and frequency penalties.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;

/// The penalties of one row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Penalties {
    /// Divides positive logits of tokens in prompt or output, and multiplies negative ones.
    pub repetition: f32,
    /// Subtracted from the logits of tokens in the output.
    pub presence: f32,
    /// Subtracted once per occurrence in the output.
    pub frequency: f32,
}

/// Applies each row's penalties to rows of `columns` logits.
///
/// `counts` holds each token's occurrences in the output; `prompt` is nonzero for tokens in the prompt;
/// `penalties` returns those of a row.
pub fn penalize(
    context: Context,
    logits: &mut [f32],
    columns: usize,
    counts: &[i32],
    prompt: Option<&[u8]>,
    penalties: &(dyn Fn(usize) -> Penalties + Sync),
) -> Result<()> {
    let operation = "penalize";
    let rows = logits.len().checked_div(columns).unwrap_or(0);
    check_length(operation, "logits", logits.len(), &[rows, columns])?;
    check_length(operation, "counts", counts.len(), &[rows, columns])?;
    if let Some(prompt) = prompt {
        check_length(operation, "prompt_mask", prompt.len(), &[rows, columns])?;
    }
    for row in 0..rows {
        let Penalties { repetition, presence, frequency } = penalties(row);
        let valid = repetition > 0.0 && repetition.is_finite();
        check_value(operation, "repetition", valid, "above 0", repetition)?;
        let finite = presence.is_finite() && frequency.is_finite();
        let got = format_args!("{presence} and {frequency}");
        check_value(operation, "presence and frequency", finite, "numbers", got)?;
    }
    let logits = DisjointSlice::new(logits);
    context.threads.parallel_for(rows * columns, 16_384, &|range| {
        // SAFETY: ranges do not overlap.
        let logits = unsafe { logits.slice_mut(range.clone()) };
        for (logit, at) in logits.iter_mut().zip(range) {
            let count = counts[at];
            if count <= 0 && prompt.is_none_or(|prompt| prompt[at] == 0) {
                continue;
            }
            let Penalties { repetition, presence, frequency } = penalties(at / columns);
            *logit = match *logit > 0.0 {
                true => *logit / repetition,
                false => *logit * repetition,
            };
            if count > 0 {
                *logit -= presence + frequency * count as f32;
            }
        }
    });
    Ok(())
}
