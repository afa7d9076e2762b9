//! Peak read and copy bandwidth and peak FMA rate: the ceilings that other kernels are compared with.

use super::call::{Call, int, pointer};
use super::grid::grid_1d;
use assay_operations::{ElementFormat, Operand};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

const THREADS: u64 = 512;
/// CTAs per SM that read.
const READ_CTAS_PER_SM: u64 = 4;
/// Bytes before the CTAs' partial sums in the scratch memory of `stream_read`.
const HEADER: u64 = 16;

/// Single-precision floats, aligned to 16 bytes.
fn aligned_floats(call: &Call<'_>, name: &'static str, count: u64) -> Result<Operand> {
    let found = call.typed(name, ElementFormat::F32, &[count])?;
    match found.pointer.0.is_multiple_of(16) {
        true => Ok(found),
        false => Err(call.error(
            format_args!("{name} at a multiple of 16 bytes"),
            format_args!("address {:#x}", found.pointer.0),
        )),
    }
}

pub(super) fn stream_read(call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let x = aligned_floats(call, "x", count)?;
    let out = call.typed("out", ElementFormat::F32, &[1])?;
    let ctas = u64::from(call.queue.device().facts().multiprocessors) * READ_CTAS_PER_SM;
    let scratch = call.scratch("stream_read", HEADER + ctas * 8)?;
    let arguments = [
        pointer(x),
        KernelArgument::U64(count),
        KernelArgument::Pointer(DevicePointer(scratch.0 + HEADER)),
        KernelArgument::Pointer(scratch),
        pointer(out),
    ];
    let function = call.function("stream_read", &[])?;
    call.queue.launch(&function, grid_1d(ctas, THREADS), &arguments)
}

pub(super) fn stream_copy(call: &Call<'_>) -> Result<()> {
    let count = call.size("count")?;
    let (x, out) = (aligned_floats(call, "x", count)?, aligned_floats(call, "out", count)?);
    if count == 0 {
        return Ok(());
    }
    let function = call.function("stream_copy", &[])?;
    let ctas = count.div_ceil(4 * 4 * THREADS);
    let arguments = [pointer(x), pointer(out), KernelArgument::U64(count)];
    call.queue.launch(&function, grid_1d(ctas, THREADS), &arguments)
}

pub(super) fn fma_peak(call: &Call<'_>) -> Result<()> {
    let (count, steps) = (call.size("count")?, call.size("steps")?);
    let x = call.typed("x", ElementFormat::F32, &[count])?;
    let out = call.typed("out", ElementFormat::F32, &[count])?;
    if count == 0 {
        return Ok(());
    }
    let function = call.function("fma_peak", &[])?;
    let arguments = [
        pointer(x),
        pointer(out),
        KernelArgument::U64(count),
        int(steps),
        KernelArgument::F32(call.float("factor")?),
        KernelArgument::F32(call.float("addend")?),
    ];
    call.queue.launch(&function, grid_1d(count.div_ceil(4 * THREADS), THREADS), &arguments)
}
