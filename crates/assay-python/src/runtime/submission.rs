//! Fills, copies and Python functions as work of a stream.

use std::sync::Arc;

use assay_runtime::backend::{DevicePointer, StreamId};
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;

use super::block::Use;
use super::buffer::Memory;
use super::host_call::{HostCall, Range};
use super::machine::Machine;
use super::places::Part;
use super::residence::Pinned;

/// Sets every byte of a part of a buffer.
pub(super) fn fill(
    py: Python<'_>,
    machine: &Arc<Machine>,
    name: &str,
    part: Part<'_>,
    (value, bytes): (u8, u64),
    stream: StreamId,
) -> PyResult<()> {
    let uses = [Use {
        buffer: part.buffer,
        writes: true,
    }];
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Fill {
        destination: part.place(machine, name, bytes)?,
        value,
        bytes,
    };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| machine.submit(request, &uses))?;
    if bytes == part.buffer.bytes() {
        part.buffer.set_hollow(false);
    }
    Ok(())
}

/// Copies between parts of two buffers that do not overlap.
pub(super) fn copy(
    py: Python<'_>,
    machine: &Arc<Machine>,
    name: &str,
    (source, destination): (Part<'_>, Part<'_>),
    bytes: u64,
    stream: StreamId,
) -> PyResult<()> {
    let uses = [(source, false), (destination, true)].map(|(part, writes)| Use {
        buffer: part.buffer,
        writes,
    });
    let _pinned = Pinned::new(py, &uses, stream)?;
    let work = Work::Copy {
        source: source.place(machine, name, bytes)?,
        destination: destination.place(machine, name, bytes)?,
        bytes,
    };
    let request = WorkRequest::new(name, stream, work);
    py.detach(|| machine.submit(request, &uses))?;
    if source.buffer.is_hollow() {
        destination.buffer.set_hollow(true);
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
    machine: &Arc<Machine>,
    given: Loop<'_>,
    stream: StreamId,
) -> PyResult<()> {
    let mut uses = Vec::with_capacity(given.reads.len() + given.writes.len());
    for (buffers, writes) in [(given.reads, false), (given.writes, true)] {
        for buffer in buffers {
            let buffer = buffer.get();
            buffer.alive(given.name)?;
            if !writes {
                buffer.has_values(given.name)?;
            }
            uses.push(Use { buffer, writes });
        }
    }
    let _pinned = Pinned::new(py, &uses, stream)?;
    let simulated = !machine.is_host_memory();
    let ranges = uses.iter().filter(|_| simulated).map(|one| Range {
        address: one.buffer.address(),
        bytes: one.buffer.bytes(),
        writes: one.writes,
    });
    let call = HostCall::new(given.function, ranges.collect());
    // The work itself is filled in with the call's token.
    let nothing = Work::Fill {
        destination: DevicePointer(0).into(),
        value: 0,
        bytes: 0,
    };
    let mut request = WorkRequest::new(given.name, stream, nothing);
    request.bytes = given.bytes;
    request.flops = given.flops;
    py.detach(|| machine.call(request, call, &uses))
}
