//! Copies and fills of checked ranges.

use super::memory::CpuMemory;
use assay_runtime::backend::{Address, Operation, Result};

pub(super) fn copy(
    memory: &CpuMemory,
    source: Address,
    destination: Address,
    bytes: u64,
) -> Result<()> {
    let from = memory.pointer(Operation::Copy, source, bytes)?;
    let to = memory.pointer(Operation::Copy, destination, bytes)?;
    // SAFETY: both ranges are in live allocations, which are freed only after this work. Device and
    // pinned addresses may alias, which `copy` allows.
    unsafe { std::ptr::copy(from, to, bytes as usize) };
    Ok(())
}

pub(super) fn fill(memory: &CpuMemory, destination: Address, value: u8, bytes: u64) -> Result<()> {
    let to = memory.pointer(Operation::Fill, destination, bytes)?;
    // SAFETY: the range is in a live allocation, which is freed only after this work.
    unsafe { std::ptr::write_bytes(to, value, bytes as usize) };
    Ok(())
}
