//! Overlap-add: frames back to a signal.

use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;

/// Samples per task at least.
const GRAIN: usize = 8_192;

/// Adds frames, [batch, frames, length], times the window, a hop apart, and divides by the sum of the squared windows
/// there, if it is above `floor`; writes the sum from sample `first` on to `out`, [batch, samples].
#[allow(clippy::too_many_arguments)] // Frames, window, their place, and the result.
pub fn overlap_add(
    context: Context,
    frames: &[f32],
    window: &[f32],
    batch: usize,
    hop: usize,
    first: usize,
    floor: f32,
    out: &mut [f32],
) -> Result<()> {
    let length = window.len();
    check_value("overlap_add", "hop", hop > 0 && length > 0, "of 1 or more samples", hop)?;
    check_value("overlap_add", "first", first < 1 << 48 && hop < 1 << 48, "within frames", first)?;
    let count = frames.len().checked_div(batch * length).unwrap_or(0);
    let samples = out.len().checked_div(batch).unwrap_or(0);
    check_length("overlap_add", "frames", frames.len(), &[batch, count, length])?;
    check_length("overlap_add", "out", out.len(), &[batch, samples])?;
    let out = DisjointSlice::new(out);
    let parts = samples.div_ceil(GRAIN);
    context.threads.parallel_for(batch * parts, 1, &|tasks| {
        for task in tasks {
            let (signal, part) = (task / parts, task % parts);
            let (start, end) = (part * GRAIN, ((part + 1) * GRAIN).min(samples));
            // SAFETY: parts do not overlap.
            let out = unsafe { out.slice_mut(signal * samples + start..signal * samples + end) };
            let mut weights = vec![0.0_f32; out.len()];
            out.fill(0.0);
            let (from, to) = (first + start, first + end);
            let earliest = (from + 1).saturating_sub(length).div_ceil(hop);
            for frame in earliest..to.div_ceil(hop).min(count) {
                let at = frame * hop;
                let row = &frames[(signal * count + frame) * length..][..length];
                let range = at.max(from)..(at + length).min(to);
                for sample in range {
                    let factor = window[sample - at];
                    out[sample - from] += factor * row[sample - at];
                    weights[sample - from] += factor * factor;
                }
            }
            for (out, weight) in out.iter_mut().zip(weights) {
                if weight > floor {
                    *out /= weight;
                }
            }
        }
    });
    Ok(())
}
