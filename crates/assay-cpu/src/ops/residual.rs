//! Sums with the residual stream, and scaled or normalized parts of rows.

use super::norm::rms_norm;
use crate::context::Context;
use crate::error::{Result, check_length, check_value};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

/// Elements per task at least: enough to amortize waking a thread.
const GRAIN: usize = 8_192;

thread_local! {
    /// Normalized rows, reused from call to call.
    static NORMED: RefCell<Vec<f32>> = RefCell::default();
}

/// Multiplies each element by a factor; a `softcap` above 0 bounds it by cap * tanh(x / cap).
pub fn scale(context: Context, x: &mut [f32], factor: f32, softcap: f32) -> Result<()> {
    let valid = softcap >= 0.0 && softcap.is_finite();
    check_value("scale", "softcap", valid, "0 or more", softcap)?;
    let count = x.len();
    let x = DisjointSlice::new(x);
    context.threads.parallel_for(count, GRAIN, &|range| {
        // SAFETY: ranges do not overlap.
        for value in unsafe { x.slice_mut(range) } {
            *value *= factor;
            if softcap > 0.0 {
                *value = softcap * (*value / softcap).tanh();
            }
        }
    });
    Ok(())
}

/// A RMSNorm: its weight and epsilon.
pub type RowNorm<'a> = (&'a [f32], f32);

/// Writes `residual + factor * x` to `out`, with the rows of `x` normalized first where there is a norm.
pub fn add_residual(
    context: Context,
    x: &[f32],
    norm: Option<RowNorm>,
    residual: &[f32],
    factor: f32,
    out: &mut [f32],
) -> Result<()> {
    check_length("add_residual", "residual", residual.len(), &[x.len()])?;
    check_length("add_residual", "out", out.len(), &[x.len()])?;
    let add = |x: &[f32], out: &mut [f32]| {
        let out = DisjointSlice::new(out);
        context.threads.parallel_for(x.len(), GRAIN, &|range| {
            // SAFETY: ranges do not overlap.
            let out = unsafe { out.slice_mut(range.clone()) };
            let terms = x[range.clone()].iter().zip(&residual[range]);
            for (out, (x, residual)) in out.iter_mut().zip(terms) {
                *out = residual + factor * x;
            }
        });
    };
    let Some((weight, epsilon)) = norm else {
        add(x, out);
        return Ok(());
    };
    NORMED.with_borrow_mut(|normed| {
        normed.resize(x.len(), 0.0);
        rms_norm(context, x, weight, epsilon, normed)?;
        add(normed, out);
        Ok(())
    })
}

/// Replaces the elements from `first` on, as many as `weight` has, of each row of `columns` elements by
/// their RMSNorm.
pub fn norm_columns(
    context: Context,
    x: &mut [f32],
    columns: usize,
    first: usize,
    weight: &[f32],
    epsilon: f32,
) -> Result<()> {
    let operation = "norm_columns";
    let rows = x.len().checked_div(columns).unwrap_or(0);
    check_length(operation, "x", x.len(), &[rows, columns])?;
    let end = first.saturating_add(weight.len());
    let fits = end <= columns && !weight.is_empty();
    check_value(operation, "columns", fits, format_args!("at least {end}"), columns)?;
    let valid = epsilon >= 0.0;
    check_value(operation, "epsilon", valid, "at least 0", epsilon)?;
    let x = DisjointSlice::new(x);
    let least = GRAIN.div_ceil(weight.len());
    context.threads.parallel_for(rows, least, &|rows| {
        for row in rows {
            let start = row * columns;
            // SAFETY: rows do not overlap.
            let part = unsafe { x.slice_mut(start + first..start + end) };
            let square: f32 = part.iter().map(|value| value * value).sum();
            let factor = 1.0 / (square / weight.len() as f32 + epsilon).sqrt();
            for (value, weight) in part.iter_mut().zip(weight) {
                *value *= factor * weight;
            }
        }
    });
    Ok(())
}
