//! Sampling of the next token, and penalties and masks of logits.

use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::define::Define;
use super::grid::{grid_1d, grid_2d};
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{F32, I32, I64, U8};
use assay_runtime::backend::{KernelArgument, Result};

/// CTAs of a row where the device has clusters.
const MAX_CLUSTER_SIZE: u64 = 8;
/// Rows of fewer tokens are one CTA's work.
const MIN_CLUSTER_VOCABULARY: u64 = 8192;
/// The most threads of a CTA and the fewest; and the most where there are many rows.
const MAX_THREADS: u64 = 512;
const MIN_THREADS: u64 = 128;
const MANY_ROWS_THREADS: u64 = 256;
/// Rows up to which every CTA has an SM to itself.
const EXCLUSIVE_SM_ROWS: u64 = 16;
/// Loads that a thread has in flight.
const LOADS_IN_FLIGHT: u64 = 8;

pub(super) fn sample(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.operand("logits", &[rows, columns])?;
    let temperature = call.typed("temperature", F32, &[rows])?;
    let top_k = call.typed("top_k", I32, &[rows])?;
    let top_p = call.typed("top_p", F32, &[rows])?;
    let min_p = call.typed("min_p", F32, &[rows])?;
    let seeds = call.operand("seeds", &[rows])?;
    let steps = call.operand("steps", &[rows])?;
    let tokens = call.typed("tokens", I32, &[rows])?;
    let logprobs = call.optional_typed("logprobs", F32, &[rows])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let integer_type = |name: &str, format| match format {
        I32 => Ok("int"),
        I64 => Ok("i64"),
        other => Err(call.error(format_args!("{name} of i32 or i64"), other)),
    };
    let use_cluster =
        call.queue.device().facts().capability >= 90 && columns >= MIN_CLUSTER_VOCABULARY;
    let cluster_size = if use_cluster { MAX_CLUSTER_SIZE } else { 1 };
    let vector = vector(logits.format, columns, &[Some(logits)]);
    // Fewer threads have more loads in flight each, and more rows fit an SM.
    let preferred = columns.div_ceil(cluster_size * vector * LOADS_IN_FLIGHT);
    let max_threads = match rows > EXCLUSIVE_SM_ROWS {
        true => MANY_ROWS_THREADS,
        false => MAX_THREADS,
    };
    let threads = preferred.next_power_of_two().clamp(MIN_THREADS, max_threads);
    let defines: [Define; 6] = [
        ("ELEMENT", call.float_type("logits", logits)?.into()),
        ("VECTOR", vector.into()),
        ("SEED", integer_type("seeds", seeds.format)?.into()),
        ("STEP", integer_type("steps", steps.format)?.into()),
        ("THREADS", threads.into()),
        ("CLUSTER_SIZE", cluster_size.into()),
    ];
    let function = call.function("sample", &defines)?;
    let probabilities = call.scratch("probabilities", rows * columns * 4)?;
    let config =
        LaunchConfig { cluster: cluster_size as u32, ..grid_1d(rows * cluster_size, threads) };
    let arguments = [
        pointer(logits),
        pointer(temperature),
        pointer(top_k),
        pointer(top_p),
        pointer(min_p),
        pointer(seeds),
        pointer(steps),
        pointer(tokens),
        pointer_or_null(logprobs),
        KernelArgument::Pointer(probabilities),
        int(columns),
    ];
    call.queue.launch(&function, config, &arguments)
}

pub(super) fn penalize(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.operand("logits", &[rows, columns])?;
    let counts = call.typed("counts", I32, &[rows, columns])?;
    let mask = call.optional_typed("prompt_mask", U8, &[rows, columns])?;
    let repetition = call.typed("repetition", F32, &[rows])?;
    let presence = call.typed("presence", F32, &[rows])?;
    let frequency = call.typed("frequency", F32, &[rows])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let number = call.float_type("logits", logits)?;
    let function = call.function("penalize", &[("ELEMENT", number.into())])?;
    let arguments = [
        pointer(logits),
        pointer(counts),
        pointer_or_null(mask),
        pointer(repetition),
        pointer(presence),
        pointer(frequency),
        int(columns),
    ];
    call.queue.launch(&function, grid_2d(columns.div_ceil(256), rows, 256), &arguments)
}

pub(super) fn mask_logits(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.operand("logits", &[rows, columns])?;
    let allowed = call.typed("allowed", I32, &[rows, columns.div_ceil(32)])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let number = call.float_type("logits", logits)?;
    let function = call.function("mask_logits", &[("ELEMENT", number.into())])?;
    let arguments = [pointer(logits), pointer(allowed), int(columns)];
    call.queue.launch(&function, grid_2d(columns.div_ceil(256), rows, 256), &arguments)
}
