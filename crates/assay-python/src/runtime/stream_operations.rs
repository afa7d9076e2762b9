//! Fills, copies and host functions as stream-ordered work.

use std::sync::Arc;

use assay_runtime::backend::{DELAY_SLOT_BYTES, DevicePointer, KernelArgument, Launch, StreamId};
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;

use super::allocation::Use;
use super::buffer::Memory;
use super::buffer_range::BufferRange;
use super::device_runtime::DeviceRuntime;
use super::host_function::{HostFunction, Range};
use super::residency::Pinned;

/// Sets every byte of a range of a buffer.
pub(super) fn fill(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    part: BufferRange<'_>,
    (value, bytes): (u8, u64),
    stream: StreamId,
) -> PyResult<()> {
    let uses = [Use { buffer: part.buffer, writes: true }];
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Fill { destination: part.address(runtime, name, bytes)?, value, bytes };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| runtime.submit(request, &uses))?;
    if bytes == part.buffer.bytes() {
        part.buffer.set_uncomputed(false);
    }
    Ok(())
}

/// Copies between non-overlapping ranges of two buffers.
pub(super) fn copy(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    (source, destination): (BufferRange<'_>, BufferRange<'_>),
    bytes: u64,
    stream: StreamId,
) -> PyResult<()> {
    let uses = [(source, false), (destination, true)]
        .map(|(part, writes)| Use { buffer: part.buffer, writes });
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Copy {
        source: source.address(runtime, name, bytes)?,
        destination: destination.address(runtime, name, bytes)?,
        bytes,
    };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| runtime.submit(request, &uses))?;
    if source.buffer.is_uncomputed() {
        destination.buffer.set_uncomputed(true);
    }
    Ok(())
}

/// Lets a stream wait as long as a slot says, after the work that the other buffers depend on.
pub(super) fn delay(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    slot: BufferRange<'_>,
    after: &[Py<Memory>],
    stream: StreamId,
) -> PyResult<()> {
    let mut uses = vec![Use { buffer: slot.buffer, writes: false }];
    for buffer in after {
        let buffer = buffer.get();
        buffer.alive(name)?;
        // A write, so that later work on the buffer comes after the delay.
        uses.push(Use { buffer, writes: true });
    }
    let _pinned = Pinned::new(py, &uses, stream)?;
    let address = slot.device_address(runtime, name, DELAY_SLOT_BYTES)?;
    let work = Work::Launch(delay_launch(runtime, address));
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| runtime.submit(request, &uses)).map(|_| ())
}

/// A launch of the delay kernel.
pub(super) fn delay_launch(runtime: &DeviceRuntime, slot: DevicePointer) -> Launch {
    Launch {
        kernel: runtime.delay,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        arguments: vec![KernelArgument::Pointer(slot)],
    }
}

/// A Python function with its buffers, bytes and flops.
pub(super) struct HostCall<'a> {
    pub name: &'a str,
    pub function: Py<PyAny>,
    pub reads: &'a [Py<Memory>],
    pub writes: &'a [Py<Memory>],
    pub bytes: u64,
    pub flops: f64,
}

/// Runs a Python function as one operation.
pub(super) fn run(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    call: HostCall<'_>,
    stream: StreamId,
) -> PyResult<()> {
    let mut uses = Vec::with_capacity(call.reads.len() + call.writes.len());
    for (buffers, writes) in [(call.reads, false), (call.writes, true)] {
        for buffer in buffers {
            let buffer = buffer.get();
            buffer.alive(call.name)?;
            if !writes {
                buffer.require_values(call.name)?;
            }
            uses.push(Use { buffer, writes });
        }
    }
    let _pinned = Pinned::new(py, &uses, stream)?;
    let simulated = !runtime.is_host_memory();
    let ranges = uses.iter().filter(|_| simulated).map(|one| Range {
        address: one.buffer.address(),
        bytes: one.buffer.bytes(),
        writes: one.writes,
    });
    let function = HostFunction::new(call.function, ranges.collect());
    // A placeholder; `call` replaces it with the function's token.
    let nothing = Work::Fill { destination: DevicePointer(0).into(), value: 0, bytes: 0 };
    let mut request = WorkRequest::new(call.name, stream, nothing);
    request.bytes = call.bytes;
    request.flops = call.flops;
    py.detach(|| runtime.call(request, function, &uses))
}
