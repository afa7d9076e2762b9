//! Fills, copies and Python functions as work of a stream.

use std::sync::Arc;

use assay_runtime::backend::{DevicePointer, StreamId};
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;

use super::allocation::Use;
use super::buffer::Memory;
use super::buffer_range::BufferRange;
use super::device_runtime::DeviceRuntime;
use super::host_function::{HostFunction, Range};
use super::residency::Pinned;

/// Sets every byte of a part of a buffer.
pub(super) fn fill(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    part: BufferRange<'_>,
    (value, bytes): (u8, u64),
    stream: StreamId,
) -> PyResult<()> {
    let uses = [Use {
        buffer: part.buffer,
        writes: true,
    }];
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Fill {
        destination: part.place(runtime, name, bytes)?,
        value,
        bytes,
    };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| runtime.submit(request, &uses))?;
    if bytes == part.buffer.bytes() {
        part.buffer.set_uncomputed(false);
    }
    Ok(())
}

/// Copies between parts of two buffers that do not overlap.
pub(super) fn copy(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    (source, destination): (BufferRange<'_>, BufferRange<'_>),
    bytes: u64,
    stream: StreamId,
) -> PyResult<()> {
    let uses = [(source, false), (destination, true)].map(|(part, writes)| Use {
        buffer: part.buffer,
        writes,
    });
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Copy {
        source: source.place(runtime, name, bytes)?,
        destination: destination.place(runtime, name, bytes)?,
        bytes,
    };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| runtime.submit(request, &uses))?;
    if source.buffer.is_uncomputed() {
        destination.buffer.set_uncomputed(true);
    }
    Ok(())
}

/// A Python function with the buffers it uses and what it is counted as.
pub(super) struct Loop<'a> {
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
    given: Loop<'_>,
    stream: StreamId,
) -> PyResult<()> {
    let mut uses = Vec::with_capacity(given.reads.len() + given.writes.len());
    for (buffers, writes) in [(given.reads, false), (given.writes, true)] {
        for buffer in buffers {
            let buffer = buffer.get();
            buffer.alive(given.name)?;
            if !writes {
                buffer.require_values(given.name)?;
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
    let call = HostFunction::new(given.function, ranges.collect());
    // The work itself is filled in with the call's token.
    let nothing = Work::Fill {
        destination: DevicePointer(0).into(),
        value: 0,
        bytes: 0,
    };
    let mut request = WorkRequest::new(given.name, stream, nothing);
    request.bytes = given.bytes;
    request.flops = given.flops;
    py.detach(|| runtime.call(request, call, &uses))
}
