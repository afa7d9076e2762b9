//! Memory with an owner, and the unfinished work that uses it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use assay_runtime::backend::{Address, Space, StreamId};
use assay_runtime::dispatch::{DispatchError, WorkId};
use assay_runtime::memory::{self, CallSite, TenantId};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::backing::Backing;
use super::capture_state;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::reentrancy::HostFunctionScope;
use super::uses::Uses;

/// How one piece of work uses a allocation.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    pub buffer: &'a Arc<Allocation>,
    pub writes: bool,
}

/// Memory that buffers, graphs and other libraries share.
pub(super) struct Allocation {
    runtime: Arc<DeviceRuntime>,
    /// Taken without Python's lock where it may be backing across a copy.
    pub(super) backing: Mutex<Option<Backing>>,
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
    reused: AtomicBool,
    /// Views and graphs that hold its address.
    exports: AtomicUsize,
    /// PendingFunctions under way that hold its address.
    pub(super) pins: AtomicUsize,
    pub(super) evictable: AtomicBool,
    pub(super) uses: Mutex<Uses>,
    /// Why its contents cannot be used: work that was to write it failed.
    poisoned: OnceLock<DispatchError>,
    /// Written by operations of a device that computes no values.
    uncomputed: AtomicBool,
}

/// What a allocation is asked for when it is made.
pub(super) struct AllocationRequest {
    pub space: Space,
    pub bytes: u64,
    pub stream: StreamId,
    pub tenant: TenantId,
    pub site: Option<CallSite>,
}

impl AllocationRequest {
    fn to_memory_request(&self) -> memory::Request {
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

impl Allocation {
    /// Takes memory from the pool of the device, or from that of pinned host memory.
    pub fn allocate(
        runtime: &Arc<DeviceRuntime>,
        request: &AllocationRequest,
    ) -> PyResult<Arc<Self>> {
        let resource: Arc<dyn memory::MemoryResource> = match request.space {
            Space::Device => runtime.memory.resource(),
            Space::Host => {
                let host = runtime.memory.host();
                host.map_err(|error| errors::memory(&error))?.clone()
            }
        };
        let buffer = memory::Buffer::new(resource, &request.to_memory_request());
        let buffer = buffer.map_err(|error| errors::memory(&error))?;
        let address = buffer.address();
        let backing = Backing::Pool(buffer, Vec::new());
        let AllocationRequest { bytes, tenant, .. } = *request;
        Ok(Allocation::new(
            runtime, backing, address, bytes, tenant, true,
        ))
    }

    /// Borrows memory that something else owns.
    pub fn borrow(
        runtime: &Arc<DeviceRuntime>,
        backing: Backing,
        address: Address,
        bytes: u64,
        writable: bool,
    ) -> Arc<Self> {
        let address = Some(address).filter(|_| bytes > 0);
        Allocation::new(
            runtime,
            backing,
            address,
            bytes,
            TenantId::DEFAULT,
            writable,
        )
    }

    fn new(
        runtime: &Arc<DeviceRuntime>,
        backing: Backing,
        address: Option<Address>,
        bytes: u64,
        tenant: TenantId,
        writable: bool,
    ) -> Arc<Self> {
        Arc::new(Allocation {
            runtime: Arc::clone(runtime),
            space: address.map(Address::space),
            address: AtomicU64::new(address.map_or(0, Address::value)),
            pooled: matches!(backing, Backing::Pool(..)),
            backing: Mutex::new(Some(backing)),
            bytes,
            tenant,
            writable,
            freed: AtomicBool::new(false),
            reused: AtomicBool::new(true),
            exports: AtomicUsize::new(0),
            pins: AtomicUsize::new(0),
            evictable: AtomicBool::new(false),
            uses: Mutex::new(Uses::default()),
            poisoned: OnceLock::new(),
            uncomputed: AtomicBool::new(false),
        })
    }

    pub fn runtime(&self) -> &Arc<DeviceRuntime> {
        &self.runtime
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
        let _ = self.check_poison();
        lock(&self.uses).note(stream, work, writes);
    }

    /// Whether work that uses it may still be under way, or is being captured.
    pub fn is_used(&self) -> bool {
        !lock(&self.uses).is_empty() || capture_state::is_capturing()
    }

    /// Whether its contents can be used, as far as is known by now.
    pub fn check_poison(&self) -> Result<(), DispatchError> {
        let dispatch = &self.runtime.dispatch;
        if dispatch.failures() == 0 {
            return Ok(());
        }
        let failure = |work| dispatch.failure(work).ok().flatten();
        if let Some(error) = lock(&self.uses).take_failure(failure) {
            self.poison(error);
        }
        self.poisoned.get().cloned().map_or(Ok(()), Err)
    }

    /// Its contents cannot be used from here on; what was known first is told.
    pub fn poison(&self, why: DispatchError) {
        let _ = self.poisoned.set(why);
    }

    /// Waits for all work that uses it; an error if its contents cannot be used then.
    pub fn wait(&self) -> PyResult<()> {
        capture_state::refuse_wait(ptr::from_ref(self).addr())?;
        let waiting = lock(&self.uses).works();
        self.wait_for(&waiting)?;
        lock(&self.uses).forget(&waiting);
        Ok(())
    }

    /// Waits for the work that wrote it last; later work that only reads it may go on.
    pub fn wait_until_written(&self) -> PyResult<()> {
        capture_state::refuse_wait(ptr::from_ref(self).addr())?;
        let waiting = lock(&self.uses).writes();
        self.wait_for(&waiting)
    }

    fn wait_for(&self, waiting: &[WorkId]) -> PyResult<()> {
        let dispatch = &self.runtime.dispatch;
        for work in waiting {
            // Work that only read it may fail without harm to it.
            let over = dispatch.wait_complete(*work);
            over.map_err(|error| errors::dispatch(&error))?;
        }
        self.check_poison().map_err(|error| {
            // Told here, so not told again by a wait for the stream.
            waiting.iter().for_each(|work| drop(dispatch.wait(*work)));
            errors::dispatch(&error)
        })
    }

    /// Waits until nothing that had this memory before can touch it any more.
    ///
    /// The pool hands memory on in the order of a stream. Work of that stream may use it at once;
    /// a copy that goes beside the stream has to come after what is queued there.
    pub fn wait_for_previous_owner(&self) -> PyResult<()> {
        if !self.reused.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stream = match lock(&self.backing).as_ref() {
            Some(Backing::Pool(buffer, _)) => buffer.stream(),
            Some(Backing::Evictable(evictable)) => evictable.stream(),
            _ => return Ok(()),
        };
        // However the former owner's work ended, it is no concern of the new one.
        let waited = self.runtime.dispatch.drain(stream);
        waited.map_err(|error| errors::dispatch(&error))?;
        if self.runtime.memory.residency_in_use().is_some() {
            // The former owner may be on its way to the host, which is no work of dispatch.
            let moved = self.runtime.backend.synchronize_stream(stream);
            moved.map_err(|error| errors::dispatch(&error.into()))?;
        }
        self.reused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Notes that operations without values wrote it, or that all of it was written by others.
    pub fn set_uncomputed(&self, uncomputed: bool) {
        self.uncomputed.store(uncomputed, Ordering::SeqCst);
    }

    pub fn is_uncomputed(&self) -> bool {
        self.uncomputed.load(Ordering::SeqCst)
    }

    /// Refuses to read what nothing computed.
    pub fn require_values(&self, operation: &str) -> PyResult<()> {
        match self.is_uncomputed() {
            false => Ok(()),
            true => Err(errors::of_class(
                "DeviceError",
                "no_values",
                &format!(
                    "{operation}: expected values, got what operations of the simulated device \
                     deferred_frees: they take time and compute nothing\nhint: compute on \"cpu\", or on \
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
        if !self.runtime.is_host_memory() && self.is_pooled() {
            return Err(PyBufferError::new_err(format!(
                "{operation}: expected memory of the host, got memory of the device \
                 \"{}\", which has no addresses here\nhint: copy it with to_device(\"cpu\")",
                self.runtime.backend.properties().name
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
        if let Some(backing) = py.detach(|| self.take()) {
            release(py, &self.runtime, backing);
        }
        Ok(())
    }

    fn take(&self) -> Option<Backing> {
        self.freed.store(true, Ordering::SeqCst);
        let backing = lock(&self.backing).take();
        backing.map(|backing| backing.after(&lock(&self.uses)))
    }
}

/// Gives memory back without Python's lock, since another thread may need it to go on.
fn release(py: Python<'_>, runtime: &Arc<DeviceRuntime>, backing: Backing) {
    match backing {
        Backing::Pool(..) | Backing::Evictable(_) if HostFunctionScope::is_active() => {
            runtime.defer_free(backing)
        }
        Backing::Pool(..) | Backing::Evictable(_) => {
            py.detach(|| backing.free(&*runtime.backend, &runtime.dispatch))
        }
        // Owned by Python objects, whose ends need the lock.
        Backing::Object(_) | Backing::Tensor(_) => drop(backing),
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let backing = self
            .backing
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if matches!(backing, Some(Backing::Tensor(_))) && self.space == Some(Space::Device) {
            // Its owner does not know of our work, which has to be over first; a stream that
            // failed does not touch it again.
            let _ = Python::attach(|py| py.detach(|| self.wait()));
        }
        let backing = self
            .backing
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        match backing.take().map(|backing| backing.after(uses)) {
            // Nobody who has a lock of a GPU's pool waits for Python.
            Some(backing @ Backing::Pool(..)) if self.runtime.is_gpu() && backing.is_in_order() => {
                backing.free(&*self.runtime.backend, &self.runtime.dispatch);
            }
            Some(backing) => Python::attach(|py| release(py, &self.runtime, backing)),
            None => {}
        }
    }
}
