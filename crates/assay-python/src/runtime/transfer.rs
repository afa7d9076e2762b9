//! Copies from and to the memory of Python objects, through the transfer engine.

use std::sync::Arc;

use assay_core::transfer::TransferTerms;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use super::buffer::contiguous;
use super::capture;
use super::errors;
use super::machine::Machine;
use super::places::Part;
use super::residence::Pinned;

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
            // SAFETY: the memory is pinned, contiguous and this long; the caller of an upload is
            // told not to write to it meanwhile.
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
            // SAFETY: as in `Source`; the memory is writable and the caller of a download is told
            // not to touch it meanwhile.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), bytes) },
        }
    }
}

/// Copies host bytes into a buffer, and waits for it.
pub(super) fn upload(
    py: Python<'_>,
    machine: &Arc<Machine>,
    name: &str,
    source: &Bound<'_, PyAny>,
    part: Part<'_>,
) -> PyResult<()> {
    capture::refuse(machine, name, "a copy from the host")?;
    let source = Source::new(contiguous(source, name, false)?);
    let bytes = source.bytes();
    if bytes == 0 {
        return part.buffer.alive(name);
    }
    let _pinned = Pinned::for_host(py, part.buffer)?;
    let destination = part.device_place(machine, name, bytes)?;
    let block: &Arc<_> = part.buffer;
    py.detach(|| {
        block.wait_for_former_owner()?;
        block.wait()?;
        let engine = machine.transfers()?;
        engine
            .upload(
                name,
                Arc::new(source),
                destination,
                TransferTerms::default(),
            )
            .and_then(|transfer| transfer.wait())
            .map_err(|error| errors::transfer(&error))?;
        if bytes == block.bytes() {
            block.set_hollow(false);
        }
        Ok(())
    })
}

/// Copies bytes of a buffer into a host object, and waits for it.
pub(super) fn download(
    py: Python<'_>,
    machine: &Arc<Machine>,
    name: &str,
    part: Part<'_>,
    into: &Bound<'_, PyAny>,
) -> PyResult<()> {
    capture::refuse(machine, name, "a copy to the host")?;
    let sink = Sink::new(contiguous(into, name, true)?);
    let bytes = sink.bytes();
    if bytes == 0 {
        return part.buffer.alive(name);
    }
    let _pinned = Pinned::for_host(py, part.buffer)?;
    let source = part.device_place(machine, name, bytes)?;
    let block: &Arc<_> = part.buffer;
    block.has_values(name)?;
    py.detach(|| {
        block.wait_until_written()?;
        let engine = machine.transfers()?;
        let filled = engine
            .download(name, source, sink, TransferTerms::default())
            .and_then(|download| download.wait())
            .map_err(|error| errors::transfer(&error))?;
        Python::attach(|_| drop(filled));
        Ok::<(), PyErr>(())
    })?;
    machine.settle(py);
    Ok(())
}
