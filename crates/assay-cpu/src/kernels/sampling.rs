//! Token sampling and penalties.

use super::call::{Call, op_error};
use crate::ops::{self, Context, Penalties, Sampling};
use crate::threads::DisjointSlice;
use assay_operations::ElementFormat;
use assay_runtime::backend::{BackendError, Result};
use std::sync::{Mutex, PoisonError};

pub(super) fn sample(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.span::<f32>("logits", &[rows, columns])?;
    let temperature = call.span::<f32>("temperature", &[rows])?;
    let top_k = call.span::<i32>("top_k", &[rows])?;
    let top_p = call.span::<f32>("top_p", &[rows])?;
    let min_p = call.span::<f32>("min_p", &[rows])?;
    let steps = call.span::<i32>("steps", &[rows])?;
    let tokens = call.span::<i32>("tokens", &[rows])?;
    let logprobs = call.optional::<f32>("logprobs", &[rows])?;
    let (seeds_i32, seeds_i64) = match call.format("seeds")? {
        ElementFormat::I32 => (Some(call.span::<i32>("seeds", &[rows])?), None),
        _ => (None, Some(call.span::<i64>("seeds", &[rows])?)),
    };
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (logits, temperature, top_k, top_p, min_p, steps, tokens, logprobs) = unsafe {
        (
            logits.read(),
            temperature.read(),
            top_k.read(),
            top_p.read(),
            min_p.read(),
            steps.read(),
            tokens.write(),
            logprobs.map(|logprobs| logprobs.write()),
        )
    };
    // SAFETY: the same.
    let (seeds_i32, seeds_i64) =
        unsafe { (seeds_i32.map(|seeds| seeds.read()), seeds_i64.map(|seeds| seeds.read())) };
    let seed = |row: usize| match (seeds_i32, seeds_i64) {
        (Some(seeds), _) => i64::from(seeds[row]) as u64,
        (None, Some(seeds)) => seeds[row] as u64,
        (None, None) => 0,
    };
    let tokens = DisjointSlice::new(tokens);
    let logprobs = logprobs.map(DisjointSlice::new);
    let sample_row = |row: usize| -> Result<()> {
        let row_logits = &logits[row * columns..(row + 1) * columns];
        let top_k_count = usize::try_from(top_k[row])
            .map_err(|_| call.error("top_k", "of 0 or more", top_k[row]))?;
        let sampling = Sampling {
            temperature: temperature[row],
            top_k: top_k_count,
            top_p: top_p[row],
            min_p: min_p[row],
        };
        let uniform = ops::uniform(seed(row), steps[row] as u64);
        let token = ops::sample(context, row_logits, sampling, uniform).map_err(op_error)?;
        // SAFETY: rows do not overlap.
        unsafe { tokens.slice_mut(row..row + 1)[0] = token.map_or(-1, |token| token as i32) };
        if let Some(logprobs) = &logprobs {
            let logprob = match token {
                Some(token) => {
                    ops::log_probability(context, row_logits, token).map_err(op_error)?
                }
                None => f32::NAN,
            };
            // SAFETY: rows do not overlap.
            unsafe { logprobs.slice_mut(row..row + 1)[0] = logprob };
        }
        Ok(())
    };
    let first_error: Mutex<Option<BackendError>> = Mutex::new(None);
    let grain = 32_768_usize.div_ceil(columns.max(1));
    context.threads.parallel_for(rows, grain, &|range| {
        for row in range {
            if let Err(error) = sample_row(row) {
                *first_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    });
    let first_error = first_error.into_inner().unwrap_or_else(PoisonError::into_inner);
    first_error.map_or(Ok(()), Err)
}

pub(super) fn penalize(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.span::<f32>("logits", &[rows, columns])?;
    let counts = call.span::<i32>("counts", &[rows, columns])?;
    let prompt = call.optional::<u8>("prompt_mask", &[rows, columns])?;
    let repetition = call.span::<f32>("repetition", &[rows])?;
    let presence = call.span::<f32>("presence", &[rows])?;
    let frequency = call.span::<f32>("frequency", &[rows])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (logits, counts, prompt, repetition, presence, frequency) = unsafe {
        (
            logits.write(),
            counts.read(),
            prompt.map(|prompt| prompt.read()),
            repetition.read(),
            presence.read(),
            frequency.read(),
        )
    };
    let penalties = |row: usize| Penalties {
        repetition: repetition[row],
        presence: presence[row],
        frequency: frequency[row],
    };
    ops::penalize(context, logits, columns, counts, prompt, &penalties).map_err(op_error)
}

pub(super) fn mask_logits(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.span::<f32>("logits", &[rows, columns])?;
    let allowed = call.span::<i32>("allowed", &[rows, columns.div_ceil(32)])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    let (logits, allowed) = unsafe { (logits.write(), allowed.read()) };
    ops::mask_logits(context, logits, columns, allowed).map_err(op_error)
}
