//! The next token.

use super::call::{Call, at, at_or_null, int, vector};
use super::rows::{line, plane};
use super::tools::{Setting, Tools};
use crate::device::{Extent, Queue};
use assay_operations::ElementFormat::{F32, I32, I64, U8};
use assay_runtime::backend::{KernelArgument, Result};

/// Blocks that share a row where the device has clusters.
const CLUSTER: u64 = 8;
/// Rows of fewer tokens are one block's work.
const LONG_ROW: u64 = 8192;
/// The most threads of a block and the fewest; and the most where there are many rows.
const MOST_THREADS: u64 = 512;
const FEWEST_THREADS: u64 = 128;
const MANY_ROWS_THREADS: u64 = 256;
/// As many rows as have every block of theirs on a multiprocessor of its own.
const FEW_ROWS: u64 = 16;
/// Loads of a row that a thread has under way at once.
const PIECES: u64 = 8;

pub(super) fn sample(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.operand("logits", &[rows, columns])?;
    let temperature = call.of("temperature", F32, &[rows])?;
    let top_k = call.of("top_k", I32, &[rows])?;
    let top_p = call.of("top_p", F32, &[rows])?;
    let min_p = call.of("min_p", F32, &[rows])?;
    let seeds = call.operand("seeds", &[rows])?;
    let steps = call.operand("steps", &[rows])?;
    let tokens = call.of("tokens", I32, &[rows])?;
    let logprobs = call.optional_of("logprobs", F32, &[rows])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let integer = |name: &str, format| match format {
        I32 => Ok("int"),
        I64 => Ok("i64"),
        other => Err(call.error(format_args!("{name} of i32 or i64"), other)),
    };
    let shares = queue.device().facts().capability >= 90 && columns >= LONG_ROW;
    let cluster = if shares { CLUSTER } else { 1 };
    let vector = vector(logits.format, columns, &[Some(logits)]);
    // Fewer threads have more of a row under way, and more rows are under way on a multiprocessor.
    let wanted = columns.div_ceil(cluster * vector * PIECES);
    let most = match rows > FEW_ROWS {
        true => MANY_ROWS_THREADS,
        false => MOST_THREADS,
    };
    let threads = wanted.next_power_of_two().clamp(FEWEST_THREADS, most);
    let settings: [Setting; 6] = [
        ("NUMBER", call.numbers("logits", logits)?.into()),
        ("VECTOR", vector.into()),
        ("SEED", integer("seeds", seeds.format)?.into()),
        ("STEP", integer("steps", steps.format)?.into()),
        ("THREADS", threads.into()),
        ("CLUSTER", cluster.into()),
    ];
    let function = tools.function(queue, "sample", &settings)?;
    let chances = tools.scratch(queue, "chances", rows * columns * 4)?;
    let extent = Extent {
        cluster: cluster as u32,
        ..line(rows * cluster, threads)
    };
    let arguments = [
        at(logits),
        at(temperature),
        at(top_k),
        at(top_p),
        at(min_p),
        at(seeds),
        at(steps),
        at(tokens),
        at_or_null(logprobs),
        KernelArgument::Pointer(chances),
        int(columns),
    ];
    queue.launch(&function, extent, &arguments)
}

pub(super) fn penalize(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let logits = call.operand("logits", &[rows, columns])?;
    let counts = call.of("counts", I32, &[rows, columns])?;
    let mask = call.optional_of("prompt_mask", U8, &[rows, columns])?;
    let repetition = call.of("repetition", F32, &[rows])?;
    let presence = call.of("presence", F32, &[rows])?;
    let frequency = call.of("frequency", F32, &[rows])?;
    if rows * columns == 0 {
        return Ok(());
    }
    let number = call.numbers("logits", logits)?;
    let function = tools.function(queue, "penalize", &[("NUMBER", number.into())])?;
    let arguments = [
        at(logits),
        at(counts),
        at_or_null(mask),
        at(repetition),
        at(presence),
        at(frequency),
        int(columns),
    ];
    queue.launch(
        &function,
        plane(columns.div_ceil(256), rows, 256),
        &arguments,
    )
}
