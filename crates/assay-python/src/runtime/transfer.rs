//! Copies to and from host memory of Python objects, through the transfer engine.

use std::sync::Arc;

use assay_runtime::backend::{DevicePointer, StreamId};
use assay_runtime::transfer::{TransferAttributes, TransferError};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use super::buffer::contiguous;
use super::buffer_range::BufferRange;
use super::capture;
use super::device_runtime::{Device, DeviceRuntime};
use super::errors;
use super::residency::Pinned;

/// The size in bytes from which a download from a GPU uses several threads.
const LONG: u64 = 32 << 20;
/// Threads that copy out of staging slots concurrently.
const THREADS: usize = 4;

/// Host bytes to read from, pinned while this lives.
pub(super) struct Source(PyUntypedBuffer);

impl Source {
    /// The buffer must be contiguous.
    pub fn new(buffer: PyUntypedBuffer) -> Self {
        Source(buffer)
    }

    pub fn bytes(&self) -> u64 {
        self.0.len_bytes() as u64
    }
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the memory is pinned, contiguous and of this length; callers of `upload` must
            // not write to it during the call.
            bytes => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), bytes) },
        }
    }
}

/// Host bytes to write to, pinned while this lives.
pub(super) struct Sink(PyUntypedBuffer);

impl Sink {
    /// The buffer must be contiguous and writable.
    pub fn new(buffer: PyUntypedBuffer) -> Self {
        Sink(buffer)
    }

    pub fn bytes(&self) -> u64 {
        self.0.len_bytes() as u64
    }
}

impl AsMut<[u8]> for Sink {
    fn as_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: as in `Source`; the memory is writable and callers of `download` must not
            // access it during the call.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), bytes) },
        }
    }
}

/// Charges a transfer to the task of a stream, if it has one: each chunk waits for a grant.
pub(super) fn attributes(runtime: &DeviceRuntime, stream: StreamId) -> TransferAttributes {
    TransferAttributes { task: runtime.tasks.task_of(stream), ..TransferAttributes::default() }
}

/// Copies host bytes into a buffer and waits; charged to the task of the stream.
pub(super) fn upload(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    source: &Bound<'_, PyAny>,
    part: BufferRange<'_>,
    stream: StreamId,
) -> PyResult<()> {
    capture::refuse(runtime, name, "a copy from the host")?;
    let source = Source::new(contiguous(source, name, false)?);
    let bytes = source.bytes();
    if bytes == 0 {
        return part.buffer.alive(name);
    }
    let _pinned = Pinned::for_host(py, part.buffer)?;
    let destination = part.device_address(runtime, name, bytes)?;
    let allocation: &Arc<_> = part.buffer;
    py.detach(|| {
        allocation.wait_for_previous_owner()?;
        allocation.wait()?;
        let engine = runtime.transfers()?;
        engine
            .upload(name, Arc::new(source), destination, attributes(runtime, stream))
            .and_then(|transfer| transfer.wait())
            .map_err(|error| errors::transfer(&error))?;
        if bytes == allocation.bytes() {
            allocation.set_uncomputed(false);
        }
        Ok(())
    })
}

/// A chunk of a sink, which outlives it.
struct SinkPart {
    first: *mut u8,
    bytes: usize,
}

// SAFETY: chunks do not overlap, and their sink pins the memory.
unsafe impl Send for SinkPart {}

impl AsMut<[u8]> for SinkPart {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.bytes) }
    }
}

/// Copies into a sink; splits a long copy from a GPU into chunks, each with its own thread.
fn download_parts(
    runtime: &DeviceRuntime,
    name: &str,
    source: DevicePointer,
    sink: &mut Sink,
    stream: StreamId,
) -> PyResult<()> {
    let engine = runtime.transfers()?;
    let is_long = sink.bytes() >= LONG && matches!(runtime.device, Device::Cuda { .. });
    let threads = if is_long { THREADS } else { 1 };
    let whole = sink.as_mut();
    let each = whole.len().div_ceil(threads).next_multiple_of(4096);
    let parts = whole.chunks_mut(each).enumerate();
    let parts: Vec<_> = parts
        .map(|(number, part)| {
            let from = DevicePointer(source.0 + (number * each) as u64);
            let (first, bytes) = (part.as_mut_ptr(), part.len());
            (from, SinkPart { first, bytes })
        })
        .collect();
    // After its wait a transfer accesses neither source nor destination.
    let copy = |(from, part)| {
        let queued = engine.download(name, from, part, attributes(runtime, stream));
        queued.and_then(|download| download.wait()).map(drop)
    };
    let done = std::thread::scope(|scope| {
        let (mut parts, copy) = (parts.into_iter(), &copy);
        let own = parts.next();
        let others: Vec<_> = parts.map(|part| scope.spawn(move || copy(part))).collect();
        let mut done = own.map_or(Ok(()), copy);
        for other in others {
            done = done.and(other.join().unwrap_or(Err(TransferError::Poisoned)));
        }
        done
    });
    done.map_err(|error| errors::transfer(&error))
}

/// Copies bytes of a buffer into a host object and waits; charged to the task of the stream.
pub(super) fn download(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    part: BufferRange<'_>,
    into: &Bound<'_, PyAny>,
    stream: StreamId,
) -> PyResult<()> {
    capture::refuse(runtime, name, "a copy to the host")?;
    let mut sink = Sink::new(contiguous(into, name, true)?);
    let bytes = sink.bytes();
    if bytes == 0 {
        return part.buffer.alive(name);
    }
    let _pinned = Pinned::for_host(py, part.buffer)?;
    let source = part.device_address(runtime, name, bytes)?;
    let allocation: &Arc<_> = part.buffer;
    allocation.require_values(name)?;
    py.detach(|| {
        allocation.wait_until_written()?;
        download_parts(runtime, name, source, &mut sink, stream)
    })?;
    runtime.run_deferred(py);
    Ok(())
}
