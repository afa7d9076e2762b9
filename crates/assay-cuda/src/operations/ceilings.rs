//! Reading, copying and arithmetic at the device's own speed: what other kernels are held against.

use super::call::{Call, at, int};
use super::rows::line;
use super::tools::Tools;
use crate::device::Queue;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const THREADS: u64 = 512;
/// Blocks on each multiprocessor that read.
const READERS: u64 = 4;
/// Bytes before the sums of blocks in the scratch memory of `read`.
const HEADER: u64 = 16;

/// Numbers of single precision whose first is a multiple of 16 bytes.
fn numbers(call: &Call<'_>, name: &'static str, count: u64) -> Result<Operand> {
    let found = call.of(name, ElementFormat::F32, &[count])?;
    match found.pointer.0.is_multiple_of(16) {
        true => Ok(found),
        false => Err(call.error(
            format_args!("{name} at a multiple of 16 bytes"),
            format_args!("address {:#x}", found.pointer.0),
        )),
    }
}

pub(super) fn read(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = numbers(call, "x", count)?;
    let out = call.of("out", ElementFormat::F32, &[1])?;
    let blocks = u64::from(queue.device().facts().multiprocessors) * READERS;
    let scratch = tools.scratch(queue, "read", HEADER + blocks * 8)?;
    let arguments = [
        at(x),
        KernelArgument::U64(count),
        KernelArgument::Pointer(DevicePointer(scratch.0 + HEADER)),
        KernelArgument::Pointer(scratch),
        at(out),
    ];
    let function = tools.function(queue, "stream_read", &[])?;
    queue.launch(&function, line(blocks, THREADS), &arguments)
}

pub(super) fn copy(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let (x, out) = (numbers(call, "x", count)?, numbers(call, "out", count)?);
    if count == 0 {
        return Ok(());
    }
    let function = tools.function(queue, "stream_copy", &[])?;
    let blocks = count.div_ceil(4 * 4 * THREADS);
    let arguments = [at(x), at(out), KernelArgument::U64(count)];
    queue.launch(&function, line(blocks, THREADS), &arguments)
}

pub(super) fn multiply_add(tools: &Tools, queue: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    let (count, steps) = (call.size("count")?, call.size("steps")?);
    let x = call.of("x", ElementFormat::F32, &[count])?;
    let out = call.of("out", ElementFormat::F32, &[count])?;
    if count == 0 {
        return Ok(());
    }
    let function = tools.function(queue, "fma_peak", &[])?;
    let arguments = [
        at(x),
        at(out),
        KernelArgument::U64(count),
        int(steps),
        KernelArgument::F32(call.float("factor")?),
        KernelArgument::F32(call.float("addend")?),
    ];
    queue.launch(
        &function,
        line(count.div_ceil(4 * THREADS), THREADS),
        &arguments,
    )
}
