//! Products of a few rows with weights: one pass over the weights by a kernel of ours.

use super::call::{Call, at, at_or_null, element_bytes, int};
use super::linear::Linear;
use super::rows::line;
use super::tools::{Setting, Tools};
use crate::device::Queue;
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Inputs up to which the kernel for few rows takes eight rows at once; beyond them, four.
const SHORT: u64 = 4096;
/// Weights beyond which cuBLASLt is quicker at more than four rows: half a layer's output.
const SMALL: u64 = 6144 * 4096;
/// Passes over weights of fewer bits that cost less than unpacking them.
const PASSES: u64 = 3;
/// The most 16-byte chunks of a weight row that a thread takes.
const MOST_CHUNKS: u64 = 7;
/// The most chunks of all the weight rows it takes at once that a thread keeps in its registers.
const MOST_KEPT: u64 = 16;

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
    /// For rows of weights of so many 16-byte chunks; `weight` and `group` are the options of
    /// those names.
    fn new(given: &Linear, rows: u64, all: u64, (weight, group): (u64, u64)) -> Self {
        let rows = rows.next_power_of_two();
        let (taken, threads, blocks) = match weight {
            16 => Self::of_16_bits(rows, all),
            4 => Self::of_4_bits(rows, all),
            _ => Self::of_8_bits(rows, all, weight == 8 && group == 0),
        };
        // A row longer than the threads' registers hold takes a wider block, alone on its
        // multiprocessor.
        let wide = all.div_ceil(MOST_CHUNKS);
        let (threads, blocks) = match wide <= threads {
            true => (threads.min(all).next_multiple_of(32), blocks),
            false => (wide.next_multiple_of(32), 1),
        };
        let chunks = all.div_ceil(threads);
        let fitting = 1 << (MOST_KEPT / chunks).max(1).ilog2();
        FewRows {
            rows,
            taken: taken.min(fitting).max(if given.gated { 2 } else { 1 }),
            threads,
            blocks,
            chunks,
        }
    }

    /// Rows taken, threads and blocks.
    fn of_16_bits(rows: u64, all: u64) -> (u64, u64, u64) {
        match (all > 512, rows) {
            (false, ..=2) => (8, 256, 2),
            (false, 3..=4) => (4, 256, 2),
            (false, _) => (4, 128, 2),
            (true, ..=2) => (4, 448, 1),
            (true, _) => (2, 448, 1),
        }
    }

    /// Integers without groups take the fewest registers beside the weights.
    fn of_8_bits(rows: u64, all: u64, lean: bool) -> (u64, u64, u64) {
        match (all > 256, rows) {
            (false, 1) if lean => (16, 256, 2),
            (false, ..=2) => (8, 256, 2),
            (false, 3..=4) => (4, 256, 2),
            (false, _) => (2, 256, 2),
            (true, 1) if lean => (8, 512, 1),
            (true, ..=2) => (4, 512, 1),
            (true, _) => (2, 448, 1),
        }
    }

    fn of_4_bits(rows: u64, all: u64) -> (u64, u64, u64) {
        match (all > 128, rows) {
            (false, 1) => (8, 128, 4),
            (false, 2) => (8, 128, 3),
            (false, 3..=4) => (8, 128, 2),
            (false, _) => (4, 128, 2),
            (true, 1) => (8, 448, 1),
            (true, _) => (4, 448, 1),
        }
    }
}

/// Rows of x that one pass over the weights can serve.
fn most_rows(inputs: u64) -> u64 {
    if inputs <= SHORT { 8 } else { 4 }
}

/// Whether passes of ours are the quickest way: for two rows always; for four where the norm before
/// or the gates after would be kernels of their own; for eight where the weights are few.
pub(super) fn is_few(given: &Linear) -> bool {
    let (rows, inputs) = (given.rows, given.inputs);
    if given.packed.is_some() {
        return rows <= most_rows(inputs) * PASSES;
    }
    let small = inputs * given.outputs <= SMALL;
    let joined = given.gain.is_some() || given.gated;
    rows <= 2 || rows <= 4 && (small || joined) || rows <= most_rows(inputs) && small
}

/// One pass over the weights for every few rows of x.
pub(super) fn few_rows(
    tools: &Tools,
    queue: &Queue<'_>,
    call: &Call<'_>,
    given: &Linear,
) -> Result<()> {
    let most = most_rows(given.inputs);
    // Where rows may not depend on those beside them, one kernel serves any number of rows.
    let at_once = match call.integer("batch_invariant")? {
        0 => given.rows.min(most),
        _ => most,
    };
    let packing = given.packed.map(|packed| packed.packing);
    let (weight, group) = packing.map_or((16u64, 0u64), |one| (one.weight, one.group));
    let all = match packing {
        Some(packing) => packing.padded(given.inputs) / packing.chunk(),
        None => given.inputs.div_ceil(8),
    };
    let FewRows {
        rows,
        taken,
        threads,
        blocks,
        chunks,
    } = FewRows::new(given, at_once, all, (weight, group));
    let settings: [Setting; 14] = [
        ("ACTIVATION", call.numbers("x", given.x)?.into()),
        ("OUTPUT", call.numbers("out", given.out)?.into()),
        ("WEIGHT", weight.into()),
        ("GROUP", group.into()),
        ("NORM", given.gain.is_some().into()),
        ("PAIRED", given.gated.into()),
        ("ACTIVATE", given.activation.into()),
        ("INPUTS", given.inputs.into()),
        ("ROWS", rows.into()),
        ("TAKEN", taken.into()),
        ("EVEN", given.outputs.is_multiple_of(taken).into()),
        ("THREADS", threads.into()),
        ("CHUNKS", chunks.into()),
        ("BLOCKS", blocks.into()),
    ];
    let function = tools.function(queue, "gemv", &settings)?;
    let fitting = u64::from(queue.device().facts().multiprocessors) * blocks;
    let extent = line(given.outputs.div_ceil(taken).min(fitting), threads);
    let made = given.outputs / if given.gated { 2 } else { 1 };
    let bytes = |operand: Operand| element_bytes(operand.format).unwrap_or(0);
    let after = |operand: Operand, elements: u64| Operand {
        pointer: DevicePointer(operand.pointer.0 + elements * bytes(operand)),
        ..operand
    };
    let mut done = 0;
    while done < given.rows {
        let now = (given.rows - done).min(most);
        let residual = given.residual.map(|one| after(one, done * given.outputs));
        let arguments = [
            at(given.weights),
            KernelArgument::Pointer(given.packed.map_or(DevicePointer(0), |one| one.scales)),
            at(after(given.x, done * given.inputs)),
            at_or_null(given.gain),
            at_or_null(given.bias),
            at_or_null(residual),
            at(after(given.out, done * made)),
            int(now),
            int(given.outputs),
            KernelArgument::F32(given.epsilon),
        ];
        queue.launch(&function, extent, &arguments)?;
        done += now;
    }
    Ok(())
}
