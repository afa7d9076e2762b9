//! Filters of signals: polyphase resampling and recursive filters.

use super::element;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, Vector};
use crate::threads::DisjointSlice;
use std::ops::Range;

/// Outputs per task at least.
const GRAIN: usize = 2_048;

/// How a signal is resampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resampling {
    /// Signals.
    pub batch: usize,
    /// Zeros, less one, that are inserted after each sample.
    pub up: usize,
    /// Every which of the filtered samples is kept.
    pub down: usize,
    /// The filtered sample that is kept first.
    pub first: usize,
}

/// Writes to each row of `out` samples `first`, `first + down` ... of x with `up` - 1 zeros inserted, convolved with
/// the taps.
pub fn resample(
    context: Context,
    resampling: Resampling,
    x: &[f32],
    taps: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let Resampling { batch, up, down, first } = resampling;
    let valid = up > 0 && down > 0 && up < 1 << 32 && down < 1 << 32 && first < 1 << 48;
    check_value("resample", "rates", valid, "of 1 or more", format_args!("{up} / {down}"))?;
    let samples = x.len().checked_div(batch).unwrap_or(0);
    let outputs = out.len().checked_div(batch).unwrap_or(0);
    check_length("resample", "x", x.len(), &[batch, samples])?;
    check_length("resample", "out", out.len(), &[batch, outputs])?;
    // The taps of each phase, last first, so that they meet samples in order.
    let each = taps.len().div_ceil(up).max(1);
    let mut phases = vec![0.0; up * each];
    for (index, tap) in taps.iter().enumerate() {
        phases[index % up * each + each - 1 - index / up] = *tap;
    }
    let out = DisjointSlice::new(out);
    let parts = outputs.div_ceil(GRAIN);
    context.threads.parallel_for(batch * parts, 1, &|tasks| {
        for task in tasks {
            let (signal, part) = (task / parts, task % parts);
            let range = part * GRAIN..((part + 1) * GRAIN).min(outputs);
            context.level.run(Part {
                resampling,
                x: &x[signal * samples..(signal + 1) * samples],
                phases: &phases,
                each,
                range: range.clone(),
                // SAFETY: parts do not overlap.
                out: unsafe {
                    out.slice_mut(signal * outputs + range.start..signal * outputs + range.end)
                },
            });
        }
    });
    Ok(())
}

/// Some outputs of a signal.
struct Part<'a> {
    resampling: Resampling,
    x: &'a [f32],
    phases: &'a [f32],
    each: usize,
    range: Range<usize>,
    out: &'a mut [f32],
}

impl Kernel for Part<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Resampling { up, down, first, .. } = self.resampling;
        for (index, out) in self.range.clone().zip(self.out) {
            let place = first + index * down;
            let (last, phase) = (place / up, place % up);
            let taps = &self.phases[phase * self.each..(phase + 1) * self.each];
            // Samples last - each + 1 to last, as far as they exist.
            let missing = (self.each - 1).saturating_sub(last);
            let end = (last + 1).min(self.x.len());
            let start = (last + 1 + missing - self.each).min(end);
            let taps = &taps[missing..missing + end - start];
            *out = element::dot(v, taps, &self.x[start..end]);
        }
    }
}

/// Writes the output of a recursive filter of each row of `x` to `out`: a[0] y[t] = sum of b[k] x[t - k] - sum over k > 0
/// of a[k] y[t - k], in transposed direct form II and double precision; `state` is [batch, order], updated.
pub fn recursive_filter(
    context: Context,
    b: &[f32],
    a: &[f32],
    x: &[f32],
    state: &mut [f32],
    out: &mut [f32],
) -> Result<()> {
    let order = a.len().saturating_sub(1);
    let leading = a.first().copied().unwrap_or(0.0);
    check_length("recursive_filter", "b", b.len(), &[order + 1])?;
    check_length("recursive_filter", "out", out.len(), &[x.len()])?;
    check_value("recursive_filter", "a[0]", leading != 0.0, "other than 0", leading)?;
    let batch = state.len().checked_div(order).unwrap_or(1);
    let samples = x.len().checked_div(batch).unwrap_or(0);
    check_length("recursive_filter", "x", x.len(), &[batch, samples])?;
    let scaled = |taps: &[f32]| -> Vec<f64> {
        taps.iter().map(|tap| f64::from(*tap) / f64::from(leading)).collect()
    };
    let (b, a) = (scaled(b), scaled(a));
    let (state, out) = (DisjointSlice::new(state), DisjointSlice::new(out));
    context.threads.parallel_for(batch, 1, &|rows| {
        for row in rows {
            let range = row * samples..(row + 1) * samples;
            // SAFETY: rows do not overlap.
            let (state, out) = unsafe {
                (state.slice_mut(row * order..(row + 1) * order), out.slice_mut(range.clone()))
            };
            let mut kept: Vec<f64> = state.iter().map(|value| f64::from(*value)).collect();
            kept.push(0.0);
            for (x, out) in x[range].iter().zip(out) {
                let x = f64::from(*x);
                let y = b[0] * x + kept[0];
                for index in 0..order {
                    kept[index] = b[index + 1] * x - a[index + 1] * y + kept[index + 1];
                }
                *out = y as f32;
            }
            for (state, kept) in state.iter_mut().zip(kept) {
                *state = kept as f32;
            }
        }
    });
    Ok(())
}
