//! Memory with an owner, and the unfinished work that uses it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use assay_runtime::backend::{Address, Space, StreamId};
use assay_runtime::dispatch::{DispatchError, WorkId};
use assay_runtime::memory::{self, CallSite, TenantId};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::capture;
use super::dlpack::Tensor;
use super::errors;
use super::evictable::Evictable;
use super::machine::{Inside, Machine};
use super::uses::Uses;

/// What keeps the memory alive.
pub(super) enum Held {
    /// A block of the device's pool; once it is taken back, with the other streams that used it.
    Pool(memory::Buffer, Vec<StreamId>),
    /// Memory of the device's pool that may be on the host meanwhile.
    Evictable(Evictable),
    /// Memory of an object that speaks the buffer protocol.
    Object(#[allow(dead_code)] PyUntypedBuffer),
    /// A tensor taken over through DLPack.
    Tensor(#[allow(dead_code)] Tensor),
}

impl Held {
    /// The same with the other streams that it comes after; work that is over needs no order.
    fn after(mut self, uses: &Uses) -> Self {
        if let Held::Pool(buffer, streams) = &mut self {
            streams.extend(uses.streams().filter(|stream| *stream != buffer.stream()));
        }
        self
    }

    /// Whether only the stream that it was allocated for used it.
    fn is_in_order(&self) -> bool {
        matches!(self, Held::Pool(_, streams) if streams.is_empty())
    }

    /// Gives it back after every stream that used it.
    pub fn give_back(self, machine: &Machine) {
        let (buffer, streams) = match self {
            Held::Pool(buffer, streams) => (buffer, streams),
            Held::Evictable(evictable) => return evictable.give_back(machine),
            Held::Object(_) | Held::Tensor(_) => return,
        };
        let backend = &machine.backend;
        for stream in streams {
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

/// How one piece of work uses a block.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    pub buffer: &'a Arc<Block>,
    pub writes: bool,
}

/// Memory that buffers, graphs and other libraries share.
pub(super) struct Block {
    machine: Arc<Machine>,
    /// Taken without Python's lock where it may be held across a copy.
    pub(super) held: Mutex<Option<Held>>,
    space: Option<Space>,
    /// Where it begins; 0 when it has no bytes, or was evicted and not brought in since.
    pub(super) address: AtomicU64,
    bytes: u64,
    tenant: TenantId,
    writable: bool,
    /// Whether it came from a pool of the device.
    pooled: bool,
    freed: AtomicBool,
    /// Whether whatever had its memory before may still be at work on it.
    handed_on: AtomicBool,
    /// Views and graphs that hold its address.
    exports: AtomicUsize,
    /// Calls under way that hold its address.
    pub(super) pins: AtomicUsize,
    pub(super) evictable: AtomicBool,
    pub(super) uses: Mutex<Uses>,
    /// Why its contents cannot be used: work that was to write it failed.
    spoilt: OnceLock<DispatchError>,
    /// Written by operations of a device that computes no values.
    hollow: AtomicBool,
}

/// What a block is asked for when it is made.
pub(super) struct Wanted {
    pub space: Space,
    pub bytes: u64,
    pub stream: StreamId,
    pub tenant: TenantId,
    pub site: Option<CallSite>,
}

impl Wanted {
    fn request(&self) -> memory::Request {
        let request = memory::Request::new(self.bytes, self.stream).for_tenant(self.tenant);
        memory::Request {
            site: self.site.unwrap_or(request.site),
            ..request
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Block {
    /// Takes memory from the pool of the device, or from that of pinned host memory.
    pub fn allocate(machine: &Arc<Machine>, wanted: &Wanted) -> PyResult<Arc<Self>> {
        let resource: Arc<dyn memory::MemoryResource> = match wanted.space {
            Space::Device => machine.memory.resource(),
            Space::Host => {
                let host = machine.memory.host();
                host.map_err(|error| errors::memory(&error))?.clone()
            }
        };
        let buffer = memory::Buffer::new(resource, &wanted.request());
        let buffer = buffer.map_err(|error| errors::memory(&error))?;
        let address = buffer.address();
        let held = Held::Pool(buffer, Vec::new());
        let Wanted { bytes, tenant, .. } = *wanted;
        Ok(Block::new(machine, held, address, bytes, tenant, true))
    }

    /// Borrows memory that something else owns.
    pub fn borrow(
        machine: &Arc<Machine>,
        held: Held,
        address: Address,
        bytes: u64,
        writable: bool,
    ) -> Arc<Self> {
        let address = Some(address).filter(|_| bytes > 0);
        Block::new(machine, held, address, bytes, TenantId::DEFAULT, writable)
    }

    fn new(
        machine: &Arc<Machine>,
        held: Held,
        address: Option<Address>,
        bytes: u64,
        tenant: TenantId,
        writable: bool,
    ) -> Arc<Self> {
        Arc::new(Block {
            machine: Arc::clone(machine),
            space: address.map(Address::space),
            address: AtomicU64::new(address.map_or(0, Address::value)),
            pooled: matches!(held, Held::Pool(..)),
            held: Mutex::new(Some(held)),
            bytes,
            tenant,
            writable,
            freed: AtomicBool::new(false),
            handed_on: AtomicBool::new(true),
            exports: AtomicUsize::new(0),
            pins: AtomicUsize::new(0),
            evictable: AtomicBool::new(false),
            uses: Mutex::new(Uses::default()),
            spoilt: OnceLock::new(),
            hollow: AtomicBool::new(false),
        })
    }

    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Where it begins; none when it has no bytes, or was evicted and is not pinned.
    pub fn address(&self) -> Option<Address> {
        let value = self.address.load(Ordering::SeqCst);
        let space = self.space.filter(|_| value != 0)?;
        Some(Address::new(space, value))
    }

    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether the pool handed it out, so that the device's copies and fills reach it.
    pub fn is_pooled(&self) -> bool {
        self.pooled && !self.is_freed()
    }

    /// Whether it lies where the device's kernels reach, its own or borrowed.
    pub fn is_on_device(&self) -> bool {
        !self.is_freed() && (self.pooled || self.space == Some(Space::Device))
    }

    pub fn is_freed(&self) -> bool {
        self.freed.load(Ordering::SeqCst)
    }

    /// Refuses freed memory, naming the operation that wanted it.
    pub fn alive(&self, operation: &str) -> PyResult<()> {
        match self.is_freed() {
            false => Ok(()),
            true => Err(errors::freed(operation, "buffer")),
        }
    }

    /// Adds the work of other streams that work of `stream` must come after.
    pub fn dependencies(&self, stream: StreamId, writes: bool, after: &mut Vec<WorkId>) {
        lock(&self.uses).dependencies(stream, writes, after);
    }

    /// Notes the work of a stream whose work outlasts the call that queued it.
    pub fn note_use(&self, stream: StreamId, work: WorkId, writes: bool) {
        // Seen now, because the new work takes the place of the old.
        let _ = self.whole();
        lock(&self.uses).note(stream, work, writes);
    }

    /// Whether work that uses it may still be under way, or is being captured.
    pub fn is_used(&self) -> bool {
        !lock(&self.uses).is_empty() || capture::is_under_way()
    }

    /// Whether its contents can be used, as far as is known by now.
    pub fn whole(&self) -> Result<(), DispatchError> {
        let dispatch = &self.machine.dispatch;
        if dispatch.failures() == 0 {
            return Ok(());
        }
        let failure = |work| dispatch.failure(work).ok().flatten();
        if let Some(error) = lock(&self.uses).sort_out(failure) {
            self.spoil(error);
        }
        self.spoilt.get().cloned().map_or(Ok(()), Err)
    }

    /// Its contents cannot be used from here on; what was known first is told.
    pub fn spoil(&self, why: DispatchError) {
        let _ = self.spoilt.set(why);
    }

    /// Waits for all work that uses it; an error if its contents cannot be used then.
    pub fn wait(&self) -> PyResult<()> {
        capture::refuse_wait(self)?;
        let waiting = lock(&self.uses).works();
        self.wait_for(&waiting)?;
        lock(&self.uses).forget(&waiting);
        Ok(())
    }

    /// Waits for the work that wrote it last; later work that only reads it may go on.
    pub fn wait_until_written(&self) -> PyResult<()> {
        capture::refuse_wait(self)?;
        let waiting = lock(&self.uses).writes();
        self.wait_for(&waiting)
    }

    fn wait_for(&self, waiting: &[WorkId]) -> PyResult<()> {
        let dispatch = &self.machine.dispatch;
        for work in waiting {
            // Work that only read it may fail without harm to it.
            let over = dispatch.wait_complete(*work);
            over.map_err(|error| errors::dispatch(&error))?;
        }
        self.whole().map_err(|error| {
            // Told here, so not told again by a wait for the stream.
            waiting.iter().for_each(|work| drop(dispatch.wait(*work)));
            errors::dispatch(&error)
        })
    }

    /// Waits until nothing that had this memory before can touch it any more.
    ///
    /// The pool hands memory on in the order of a stream. Work of that stream may use it at once;
    /// a copy that goes beside the stream has to come after what is queued there.
    pub fn wait_for_former_owner(&self) -> PyResult<()> {
        if !self.handed_on.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stream = match lock(&self.held).as_ref() {
            Some(Held::Pool(buffer, _)) => buffer.stream(),
            Some(Held::Evictable(evictable)) => evictable.stream(),
            _ => return Ok(()),
        };
        // However the former owner's work ended, it is no concern of the new one.
        let waited = self.machine.dispatch.drain(stream);
        waited.map_err(|error| errors::dispatch(&error))?;
        if self.machine.memory.residency_in_use().is_some() {
            // The former owner may be on its way to the host, which is no work of dispatch.
            let moved = self.machine.backend.synchronize_stream(stream);
            moved.map_err(|error| errors::dispatch(&error.into()))?;
        }
        self.handed_on.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Notes that operations without values wrote it, or that all of it was written by others.
    pub fn set_hollow(&self, hollow: bool) {
        self.hollow.store(hollow, Ordering::SeqCst);
    }

    pub fn is_hollow(&self) -> bool {
        self.hollow.load(Ordering::SeqCst)
    }

    /// Refuses to read what nothing computed.
    pub fn has_values(&self, operation: &str) -> PyResult<()> {
        match self.is_hollow() {
            false => Ok(()),
            true => Err(errors::of_class(
                "DeviceError",
                "no_values",
                &format!(
                    "{operation}: expected values, got what operations of the simulated device \
                     left: they take time and compute nothing\nhint: compute on \"cpu\", or on \
                     a GPU"
                ),
            )),
        }
    }

    /// The streams with unfinished work that uses it.
    pub fn streams_in_use(&self) -> Vec<StreamId> {
        lock(&self.uses).streams().collect()
    }

    /// The address for libraries that work on the same device.
    pub fn device_pointer(&self) -> *mut u8 {
        let address = self.address().map_or(0, Address::value);
        ptr::with_exposed_provenance_mut(address as usize)
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
        Ok(match self.address() {
            Some(address) => ptr::with_exposed_provenance_mut(address.value() as usize),
            // Never read or written: there are no bytes.
            None => ptr::without_provenance_mut(64),
        })
    }

    pub fn exports(&self) -> usize {
        self.exports.load(Ordering::SeqCst)
    }

    /// Keeps the memory where it is, and from being freed by hand; it is pinned meanwhile.
    pub fn export(&self) {
        self.exports.fetch_add(1, Ordering::SeqCst);
    }

    pub fn unexport(&self) {
        self.exports.fetch_sub(1, Ordering::SeqCst);
    }

    /// Gives the memory back now; refused while something else looks at it.
    pub fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.alive("free")?;
        let views = self.exports();
        if views > 0 {
            return Err(errors::invalid(&format!(
                "free: expected a buffer without views, got one with {views}\nhint: delete the \
                 arrays that share its memory and close the graphs that use it first"
            )));
        }
        if let Some(held) = py.detach(|| self.take()) {
            release(py, &self.machine, held);
        }
        Ok(())
    }

    fn take(&self) -> Option<Held> {
        self.freed.store(true, Ordering::SeqCst);
        let held = lock(&self.held).take();
        held.map(|held| held.after(&lock(&self.uses)))
    }
}

/// Gives memory back without Python's lock, since another thread may need it to go on.
fn release(py: Python<'_>, machine: &Arc<Machine>, held: Held) {
    match held {
        Held::Pool(..) | Held::Evictable(_) if Inside::is_entered() => machine.leave(held),
        Held::Pool(..) | Held::Evictable(_) => py.detach(|| held.give_back(machine)),
        // Owned by Python objects, whose ends need the lock.
        Held::Object(_) | Held::Tensor(_) => drop(held),
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(held, Some(Held::Tensor(_))) && self.space == Some(Space::Device) {
            // Its owner does not know of our work, which has to be over first; a stream that
            // failed does not touch it again.
            let _ = Python::attach(|py| py.detach(|| self.wait()));
        }
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        match held.take().map(|held| held.after(uses)) {
            // Nobody who has a lock of a GPU's pool waits for Python.
            Some(held @ Held::Pool(..)) if self.machine.is_gpu() && held.is_in_order() => {
                held.give_back(&self.machine);
            }
            Some(held) => Python::attach(|py| release(py, &self.machine, held)),
            None => {}
        }
    }
}
