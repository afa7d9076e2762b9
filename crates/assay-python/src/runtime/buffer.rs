//! Memory in Python's hands: from the pool, or borrowed from another library.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assay_core::backend::{Address, StreamId};
use assay_core::dispatch::WorkId;
use assay_core::memory;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::barrier::guarded;
use super::dlpack::Tensor;
use super::errors;
use super::machine::{Inside, Machine, outside_operation};

/// What keeps the memory alive.
pub(super) enum Held {
    /// A block of the device's pool.
    Pool(memory::Buffer, Vec<StreamId>),
    /// Memory of an object that speaks the buffer protocol.
    Object(#[allow(dead_code)] PyUntypedBuffer),
    /// A tensor taken over through DLPack.
    Tensor(#[allow(dead_code)] Tensor),
}

impl Held {
    /// Gives it back after every stream that used it.
    pub fn give_back(self, machine: &Machine) {
        let Held::Pool(buffer, streams) = self else {
            return;
        };
        let backend = &machine.backend;
        for stream in streams {
            if stream == buffer.stream() {
                continue;
            }
            let Ok(event) = backend.create_event() else {
                continue;
            };
            let ordered = backend
                .record_event(event, stream)
                .and_then(|()| backend.wait_event(buffer.stream(), event));
            if ordered.is_err() {
                // The event could not order it, so the host waits instead.
                let _ = backend.synchronize_stream(stream);
            }
            let _ = backend.destroy_event(event);
        }
        drop(buffer);
    }
}

/// The latest work of one stream that used a buffer.
struct LastUse {
    stream: StreamId,
    work: WorkId,
    /// The latest work that wrote.
    write: Option<WorkId>,
}

/// How one piece of work uses a buffer.
pub(super) struct Use<'a> {
    pub buffer: &'a Memory,
    pub writes: bool,
}

/// Memory with an owner, and the unfinished work that uses it.
#[pyclass(name = "Buffer", module = "assay._native", frozen)]
pub(super) struct Memory {
    machine: Arc<Machine>,
    held: Mutex<Option<Held>>,
    address: Option<Address>,
    bytes: u64,
    writable: bool,
    exports: AtomicUsize,
    uses: Mutex<Vec<LastUse>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Takes memory from the pool, for work of `stream`.
    pub fn allocate(machine: &Arc<Machine>, bytes: u64, stream: StreamId) -> PyResult<Self> {
        let resource: Arc<dyn memory::MemoryResource> = machine.memory.clone();
        let buffer = memory::Buffer::new(resource, &memory::Request::new(bytes, stream));
        let buffer = buffer.map_err(|error| errors::memory(&error))?;
        Ok(Memory {
            machine: Arc::clone(machine),
            address: buffer.address(),
            bytes,
            held: Mutex::new(Some(Held::Pool(buffer, Vec::new()))),
            writable: true,
            exports: AtomicUsize::new(0),
            uses: Mutex::new(Vec::new()),
        })
    }

    /// Borrows memory that something else owns.
    pub fn borrow(
        machine: &Arc<Machine>,
        held: Held,
        address: usize,
        bytes: u64,
        writable: bool,
    ) -> Self {
        let address = match bytes {
            0 => None,
            _ => Some(Address::Host(assay_core::backend::HostPointer(
                address as u64,
            ))),
        };
        Memory {
            machine: Arc::clone(machine),
            held: Mutex::new(Some(held)),
            address,
            bytes,
            writable,
            exports: AtomicUsize::new(0),
            uses: Mutex::new(Vec::new()),
        }
    }

    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Where it begins, or `None` when it has no bytes.
    pub fn address(&self) -> Option<Address> {
        self.address
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the pool handed it out, so that the device's copies and fills reach it.
    pub fn is_pooled(&self) -> bool {
        matches!(&*lock(&self.held), Some(Held::Pool(..)))
    }

    /// Refuses a freed buffer, naming the operation that wanted it.
    pub fn alive(&self, operation: &str) -> PyResult<()> {
        match &*lock(&self.held) {
            Some(_) => Ok(()),
            None => Err(errors::freed(operation, "buffer")),
        }
    }

    /// Adds the work of other streams that work of `stream` must come after.
    pub fn dependencies(&self, stream: StreamId, writes: bool, after: &mut Vec<WorkId>) {
        for last in lock(&self.uses).iter().filter(|last| last.stream != stream) {
            let earlier = if writes { Some(last.work) } else { last.write };
            after.extend(earlier);
        }
    }

    /// Notes the work of a stream whose work outlasts the call that queued it.
    pub fn note_use(&self, stream: StreamId, work: WorkId, writes: bool) {
        {
            let mut uses = lock(&self.uses);
            match uses.iter_mut().find(|last| last.stream == stream) {
                Some(last) => {
                    last.work = work;
                    last.write = if writes { Some(work) } else { last.write };
                }
                None => uses.push(LastUse {
                    stream,
                    work,
                    write: writes.then_some(work),
                }),
            }
        }
        if let Some(Held::Pool(_, streams)) = &mut *lock(&self.held)
            && !streams.contains(&stream)
        {
            streams.push(stream);
        }
    }

    /// Waits for all work that uses it.
    pub fn wait(&self) -> PyResult<()> {
        let waiting: Vec<WorkId> = lock(&self.uses).iter().map(|last| last.work).collect();
        for work in &waiting {
            self.machine
                .dispatch
                .wait(*work)
                .map_err(|error| errors::dispatch(&error))?;
        }
        lock(&self.uses).retain(|last| !waiting.contains(&last.work));
        Ok(())
    }

    fn take(&self) -> Option<Held> {
        lock(&self.held).take()
    }

    /// The address for the host, which only memory of the processor has.
    pub fn host_pointer(&self, operation: &str) -> PyResult<*mut u8> {
        if !self.machine.is_host_memory() && self.is_pooled() {
            return Err(PyBufferError::new_err(format!(
                "{operation}: expected memory of the host, got memory of the device \
                 \"{}\", which has no addresses here\nhint: copy it with to_device(\"cpu\")",
                self.machine.backend.properties().name
            )));
        }
        Ok(match self.address {
            Some(address) => ptr::with_exposed_provenance_mut(address.value() as usize),
            // Never read or written: there are no bytes.
            None => ptr::without_provenance_mut(64),
        })
    }

    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether work that uses it may still be under way.
    pub fn is_used(&self) -> bool {
        !lock(&self.uses).is_empty()
    }

    pub fn export(&self) {
        self.exports.fetch_add(1, Ordering::AcqRel);
    }

    pub fn unexport(&self) {
        self.exports.fetch_sub(1, Ordering::AcqRel);
    }
}

#[pymethods]
impl Memory {
    /// How many bytes it has.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes
    }

    /// Where it begins in its memory; 0 when it has no bytes.
    #[getter]
    fn pointer(&self) -> u64 {
        self.address.map_or(0, |address| address.value())
    }

    /// Whether the device's pool handed it out.
    #[getter]
    fn pooled(&self) -> bool {
        self.is_pooled()
    }

    /// Whether it may be written.
    #[getter]
    fn writable(&self) -> bool {
        self.writable
    }

    /// Whether it was freed.
    #[getter]
    fn freed(&self) -> bool {
        lock(&self.held).is_none()
    }

    /// Views that other objects hold of it.
    #[getter]
    fn exports(&self) -> usize {
        self.exports.load(Ordering::Acquire)
    }

    /// Wait for all work that uses it.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        guarded("synchronize", || {
            outside_operation("synchronize")?;
            py.detach(|| self.wait())?;
            self.machine.settle(py)
        })
    }

    /// Give the memory back now; refused while other objects hold views of it.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        guarded("free", || {
            self.alive("free")?;
            let views = self.exports.load(Ordering::Acquire);
            if views > 0 {
                return Err(errors::invalid(&format!(
                    "free: expected a buffer without views, got one with {views}\nhint: delete \
                     the arrays that share its memory first"
                )));
            }
            if let Some(held) = self.take() {
                release(py, &self.machine, held);
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// `view` is Python's to fill in, as the buffer protocol says.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get();
        guarded("buffer", || {
            memory.alive("buffer")?;
            if !memory.writable && flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
                return Err(PyBufferError::new_err(
                    "buffer: expected writable memory, got memory borrowed for reading only",
                ));
            }
            let pointer = memory.host_pointer("buffer")?;
            if memory.is_used() {
                outside_operation("buffer")?;
                slf.py().detach(|| memory.wait())?;
            }
            // SAFETY: Python passes a `Py_buffer` to be filled in; the bytes live until it is
            // released, because `free` refuses while `exports` is above zero and the view holds
            // a reference to this object.
            let filled = unsafe {
                ffi::PyBuffer_FillInfo(
                    view,
                    slf.as_ptr(),
                    pointer.cast::<c_void>(),
                    memory.bytes as ffi::Py_ssize_t,
                    c_int::from(!memory.writable),
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
    /// Called by Python once for every view that was handed out.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.unexport();
    }

    fn __repr__(&self) -> String {
        let state = if self.freed() { "freed" } else { "live" };
        format!(
            "Buffer({} bytes at {:#x}, {state})",
            self.bytes,
            self.pointer()
        )
    }
}

/// Gives memory back without Python's lock, since another thread may need it to go on.
fn release(py: Python<'_>, machine: &Arc<Machine>, held: Held) {
    match held {
        Held::Pool(..) if Inside::is_entered() => machine.leave(held),
        Held::Pool(..) => py.detach(|| held.give_back(machine)),
        // Owned by Python objects, whose ends need the lock.
        Held::Object(_) | Held::Tensor(_) => drop(held),
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(held) = self.take() else { return };
        let machine = Arc::clone(&self.machine);
        Python::attach(|py| release(py, &machine, held));
    }
}

/// The memory of an object that speaks the buffer protocol: pinned bytes in C order.
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

/// The name under which a consumer finds a DLPack tensor.
pub(super) fn same_name(name: *const std::ffi::c_char, wanted: &CStr) -> bool {
    // SAFETY: capsule names are zero-terminated strings that outlive their capsule.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == wanted
}
