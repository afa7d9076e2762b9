//! Making tokens that were there before less likely.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;

/// How much less likely, for one row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Penalties {
    /// Scores above 0 of tokens in prompt or output are divided by it, others multiplied.
    pub repetition: f32,
    /// Taken from the logits of tokens in the output.
    pub presence: f32,
    /// Taken from them once more for each time.
    pub frequency: f32,
}

/// Changes logits, rows of `columns`, by each row's penalties.
///
/// `counts` says how often each token is in the output, `prompt` is not 0 where it is in the
/// prompt; `penalties` gives those of a row.
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
        let Penalties {
            repetition,
            presence,
            frequency,
        } = penalties(row);
        let valid = repetition > 0.0 && repetition.is_finite();
        check_value(operation, "repetition", valid, "above 0", repetition)?;
        let finite = presence.is_finite() && frequency.is_finite();
        let got = format_args!("{presence} and {frequency}");
        check_value(operation, "presence and frequency", finite, "numbers", got)?;
    }
    let logits = DisjointSlice::new(logits);
    context
        .threads
        .parallel_for(rows * columns, 16_384, &|range| {
            // SAFETY: ranges do not overlap.
            let logits = unsafe { logits.slice_mut(range.clone()) };
            for (logit, at) in logits.iter_mut().zip(range) {
                let count = counts[at];
                if count <= 0 && prompt.is_none_or(|prompt| prompt[at] == 0) {
                    continue;
                }
                let Penalties {
                    repetition,
                    presence,
                    frequency,
                } = penalties(at / columns);
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
