//! Products of a few rows with weights: one pass over the weights by a kernel of ours.

use super::call::{Call, at, at_or_null, element_bytes, int};
use super::linear::Linear;
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_core::backend::{DevicePointer, KernelArgument, Result};
use assay_core::operations::Operand;

/// Inputs up to which the kernel for few rows takes eight rows at once; beyond them, four.
const SHORT: u64 = 4096;
/// Rounds of blocks that a multiprocessor works through.
const WAVES: u64 = 4;

/// How the kernel for few rows is launched, as measured on an H200.
struct FewRows {
    /// The most rows of x at once.
    rows: u64,
    /// Weight rows that a block takes at once.
    taken: u64,
    threads: u64,
    /// Blocks on each multiprocessor.
    blocks: u64,
    /// 16-byte chunks of a weight row for each thread.
    chunks: u64,
}

impl FewRows {
    /// `chunk` weights are 16 bytes.
    fn new(rows: u64, inputs: u64, chunk: u64) -> Self {
        let rows = rows.next_power_of_two();
        let all = inputs.div_ceil(chunk);
        let (taken, threads, blocks) = match all {
            ..=512 => (if rows <= 2 { 4 } else { 2 }, all.min(256), 2),
            _ => (if rows <= 2 { 2 } else { 1 }, all.div_ceil(2).min(896), 1),
        };
        let threads = threads.next_multiple_of(32);
        FewRows {
            rows,
            taken,
            threads,
            blocks,
            chunks: all.div_ceil(threads),
        }
    }
}

/// Rows of x that one pass over the weights can serve.
pub(super) fn few(inputs: u64) -> u64 {
    if inputs <= SHORT { 8 } else { 4 }
}

/// One pass over the weights for every few rows of x.
pub(super) fn few_rows(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
) -> Result<()> {
    let most = few(given.inputs);
    let (bits, chunk) = if given.scales.is_some() {
        (8u64, 16)
    } else {
        (16, 8)
    };
    let FewRows {
        rows,
        taken,
        threads,
        blocks,
        chunks,
    } = FewRows::new(given.rows.min(most), given.inputs, chunk);
    let settings: [Setting; 10] = [
        ("ACTIVATION", call.numbers("x", given.x)?.into()),
        ("OUTPUT", call.numbers("out", given.out)?.into()),
        ("WEIGHT", bits.into()),
        ("GROUP", 0u64.into()),
        ("ACTIVATE", given.activation.into()),
        ("ROWS", rows.into()),
        ("TAKEN", taken.into()),
        ("THREADS", threads.into()),
        ("CHUNKS", chunks.into()),
        ("BLOCKS", blocks.into()),
    ];
    let function = tools.function(queue, "linear_few_rows", &settings)?;
    let fitting = u64::from(queue.device().facts().multiprocessors) * blocks * WAVES;
    let extent = line(given.outputs.div_ceil(taken).min(fitting), threads);
    let bytes = |operand: Operand| element_bytes(operand.format).unwrap_or(0);
    let after = |operand: Operand, elements: u64| Operand {
        pointer: DevicePointer(operand.pointer.0 + elements * bytes(operand)),
        ..operand
    };
    let nothing = KernelArgument::Pointer(DevicePointer(0));
    let mut done = 0;
    while done < given.rows {
        let now = (given.rows - done).min(most);
        let residual = given.residual.map(|one| after(one, done * given.outputs));
        let arguments = [
            at(given.weights),
            KernelArgument::Pointer(given.scales.unwrap_or(DevicePointer(0))),
            at(after(given.x, done * given.inputs)),
            nothing,
            at_or_null(given.bias),
            at_or_null(residual),
            at(after(given.out, done * given.outputs)),
            int(now),
            int(given.outputs),
            int(given.inputs),
            KernelArgument::F32(0.0),
        ];
        queue.launch(&function, extent, &arguments)?;
        done += now;
    }
    Ok(())
}
