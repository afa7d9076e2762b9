//! Device memory as Python objects, and host memory of Python objects for the device.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Deref;
use std::sync::Arc;

use assay_runtime::backend::Address;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::allocation::{Allocation, AllocationRequest};
use super::backing::Backing;
use super::capture;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::panic_guard::guarded;
use super::reentrancy::refuse_reentry;
use super::residency::Pinned;
use super::stream::PyStream;

/// A Python handle of an allocation.
#[pyclass(name = "Buffer", module = "assay._native", frozen)]
pub(super) struct Memory {
    allocation: Arc<Allocation>,
}

impl Deref for Memory {
    type Target = Arc<Allocation>;

    fn deref(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl Memory {
    /// A handle of an allocation.
    pub fn new(allocation: Arc<Allocation>) -> Self {
        Memory { allocation }
    }

    /// Allocates from a pool of the device.
    pub fn allocate(runtime: &Arc<DeviceRuntime>, request: &AllocationRequest) -> PyResult<Self> {
        let allocation = Allocation::allocate(runtime, request)?;
        Ok(Memory { allocation })
    }

    /// Borrows memory that another object owns.
    pub fn borrow(
        runtime: &Arc<DeviceRuntime>,
        backing: Backing,
        address: Address,
        bytes: u64,
        writable: bool,
    ) -> Self {
        let allocation = Allocation::borrow(runtime, backing, address, bytes, writable);
        Memory { allocation }
    }
}

#[pymethods]
impl Memory {
    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes()
    }

    /// Its base address; 0 for zero bytes.
    #[getter]
    fn pointer(&self) -> u64 {
        self.address().map_or(0, |address| address.value())
    }

    /// Whether the device's pool allocated it.
    #[getter]
    fn pooled(&self) -> bool {
        self.is_pooled()
    }

    /// Whether it is writable.
    #[getter]
    fn writable(&self) -> bool {
        self.is_writable()
    }

    /// Whether it was freed.
    #[getter]
    fn freed(&self) -> bool {
        self.is_freed()
    }

    /// The number of exported views.
    #[getter]
    fn exports(&self) -> usize {
        self.allocation.exports()
    }

    /// Whether it may be evicted to the host while unused.
    #[getter]
    fn evictable(&self) -> bool {
        self.is_evictable()
    }

    /// Whether it is on the device.
    #[getter]
    fn resident(&self, py: Python<'_>) -> PyResult<bool> {
        guarded("resident", || py.detach(|| self.is_resident()))
    }

    /// Make it evictable: it may move to the host when memory is short and nothing uses it.
    fn allow_eviction(&self, py: Python<'_>) -> PyResult<()> {
        guarded("allow_eviction", || {
            refuse_reentry("allow_eviction")?;
            capture::refuse(self.runtime(), "allow_eviction", "a movement of memory")?;
            py.detach(|| self.allocation.allow_eviction())
        })
    }

    /// Evict it to pinned host memory now; the next use restores it byte for byte.
    fn evict(&self, py: Python<'_>, stream: PyRef<'_, PyStream>) -> PyResult<()> {
        guarded("evict", || {
            refuse_reentry("evict")?;
            capture::refuse(self.runtime(), "evict", "a movement of memory")?;
            let id = stream.on(self.runtime(), "evict")?;
            py.detach(|| self.allocation.evict(id))
        })
    }

    /// Wait for all work that uses it.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            refuse_reentry("synchronize")?;
            py.detach(|| self.wait())?;
            self.runtime().run_deferred(py);
            Ok(())
        })
    }

    /// Wait until what was queued before has written the buffer; reads may still be under way.
    fn wait_until_written(&self, py: Python<'_>) -> PyResult<()> {
        guarded("wait_until_written", || {
            refuse_reentry("wait_until_written")?;
            py.detach(|| self.allocation.wait_until_written())?;
            self.runtime().run_deferred(py);
            Ok(())
        })
    }

    /// Free the memory now; rejected while other objects hold views of it.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        guarded("free", || self.allocation.free(py))
    }

    /// # Safety
    ///
    /// `view` must be a `Py_buffer` that this call may fill in, as the buffer protocol specifies.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get();
        guarded("buffer", || {
            memory.alive("buffer")?;
            let writable = memory.is_writable();
            if !writable && flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
                return Err(PyBufferError::new_err(
                    "buffer: expected writable memory, got memory borrowed for reading only",
                ));
            }
            let _pinned = Pinned::for_host(slf.py(), memory)?;
            let pointer = memory.host_pointer("buffer")?;
            if memory.is_used() {
                refuse_reentry("buffer")?;
                slf.py().detach(|| memory.wait())?;
            }
            // SAFETY: Python passes a `Py_buffer` to fill in; the bytes live until it is released,
            // because `free` fails while `exports` is above zero and the view holds a reference to
            // this object.
            let filled = unsafe {
                ffi::PyBuffer_FillInfo(
                    view,
                    slf.as_ptr(),
                    pointer.cast::<c_void>(),
                    memory.bytes() as ffi::Py_ssize_t,
                    c_int::from(!writable),
                    flags,
                )
            };
            if filled != 0 {
                return Err(PyErr::fetch(slf.py()));
            }
            memory.export();
            Ok(())
        })
    }

    /// # Safety
    ///
    /// Python calls this once for every view that was exported.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.unexport();
    }

    fn __repr__(&self) -> String {
        let state = if self.freed() { "freed" } else { "live" };
        format!("Buffer({} bytes at {:#x}, {state})", self.bytes(), self.pointer())
    }
}

/// The memory of an object with the buffer protocol: pinned, C-contiguous bytes.
pub(super) fn contiguous(
    object: &Bound<'_, PyAny>,
    operation: &str,
    writable: bool,
) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(errors::invalid(&format!(
            "{operation}: expected contiguous memory, got shape {:?} with strides {:?}",
            buffer.shape(),
            buffer.strides()
        )));
    }
    if writable && buffer.readonly() {
        return Err(errors::invalid(&format!(
            "{operation}: expected writable memory, got memory that must not be written"
        )));
    }
    Ok(buffer)
}

/// Whether a DLPack capsule has this name.
pub(super) fn has_name(name: *const std::ffi::c_char, expected: &CStr) -> bool {
    // SAFETY: capsule names are zero-terminated strings that outlive their capsule.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == expected
}
