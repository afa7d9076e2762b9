//! An allocation: its memory, its owner, and the unfinished work that uses it.

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

/// How one piece of work accesses an allocation.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    pub buffer: &'a Arc<Allocation>,
    pub writes: bool,
}

/// Memory that buffers, graphs and other libraries share.
pub(super) struct Allocation {
    runtime: Arc<DeviceRuntime>,
    /// Locked without the GIL where the lock may be held across a copy.
    pub(super) backing: Mutex<Option<Backing>>,
    space: Option<Space>,
    /// The base address; 0 for zero bytes, or while evicted.
    pub(super) address: AtomicU64,
    bytes: u64,
    tenant: TenantId,
    writable: bool,
    /// Whether a pool of the device allocated it.
    pooled: bool,
    freed: AtomicBool,
    /// Whether work of the previous owner of its memory may still be running.
    reused: AtomicBool,
    /// Views and graphs that use its address.
    exports: AtomicUsize,
    /// Calls in progress that use its address.
    pub(super) pins: AtomicUsize,
    pub(super) evictable: AtomicBool,
    pub(super) uses: Mutex<Uses>,
    /// Why its contents are invalid: work that writes it failed.
    poisoned: OnceLock<DispatchError>,
    /// Whether a device that computes no values wrote it.
    uncomputed: AtomicBool,
}

/// The parameters of an allocation.
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
        memory::Request { site: self.site.unwrap_or(request.site), ..request }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic midway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Allocation {
    /// Allocates from the pool of the device, or from the pool of pinned host memory.
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
        Ok(Allocation::new(runtime, backing, address, bytes, tenant, true))
    }

    /// Borrows memory that another object owns.
    pub fn borrow(
        runtime: &Arc<DeviceRuntime>,
        backing: Backing,
        address: Address,
        bytes: u64,
        writable: bool,
    ) -> Arc<Self> {
        let address = Some(address).filter(|_| bytes > 0);
        Allocation::new(runtime, backing, address, bytes, TenantId::DEFAULT, writable)
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

    /// The base address; None for zero bytes, or while evicted and not pinned.
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

    /// Whether a pool allocated it, so that the device's copies and fills can access it.
    pub fn is_pooled(&self) -> bool {
        self.pooled && !self.is_freed()
    }

    /// Whether the device's kernels can access it, pooled or borrowed.
    pub fn is_on_device(&self) -> bool {
        !self.is_freed() && (self.pooled || self.space == Some(Space::Device))
    }

    pub fn is_freed(&self) -> bool {
        self.freed.load(Ordering::SeqCst)
    }

    /// Rejects freed memory with an error that names the operation.
    pub fn alive(&self, operation: &str) -> PyResult<()> {
        match self.is_freed() {
            false => Ok(()),
            true => Err(errors::freed(operation, "buffer")),
        }
    }

    /// Appends the work of other streams that work of `stream` must run after.
    pub fn dependencies(&self, stream: StreamId, writes: bool, after: &mut Vec<WorkId>) {
        lock(&self.uses).dependencies(stream, writes, after);
    }

    /// Records the latest work of a stream that runs asynchronously.
    pub fn note_use(&self, stream: StreamId, work: WorkId, writes: bool) {
        // Checked now, because the new work replaces the old in the table.
        let _ = self.check_poison();
        lock(&self.uses).note(stream, work, writes);
    }

    /// Whether work that uses it may be unfinished or is being captured.
    pub fn is_used(&self) -> bool {
        !lock(&self.uses).is_empty() || capture_state::is_capturing()
    }

    /// An error if work that writes it is known to have failed.
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

    /// Marks its contents as invalid; the first error is kept.
    pub fn poison(&self, why: DispatchError) {
        let _ = self.poisoned.set(why);
    }

    /// Waits for all work that uses it; an error if its contents are invalid.
    pub fn wait(&self) -> PyResult<()> {
        capture_state::refuse_wait(ptr::from_ref(self).addr())?;
        let waiting = lock(&self.uses).works();
        self.wait_for(&waiting)?;
        lock(&self.uses).forget(&waiting);
        Ok(())
    }

    /// Waits for the work that wrote it last; later work that only reads it may still run.
    pub fn wait_until_written(&self) -> PyResult<()> {
        capture_state::refuse_wait(ptr::from_ref(self).addr())?;
        let waiting = lock(&self.uses).writes();
        self.wait_for(&waiting)
    }

    fn wait_for(&self, waiting: &[WorkId]) -> PyResult<()> {
        let dispatch = &self.runtime.dispatch;
        for work in waiting {
            // A failed read leaves the contents valid.
            let over = dispatch.wait_complete(*work);
            over.map_err(|error| errors::dispatch(&error))?;
        }
        self.check_poison().map_err(|error| {
            // The error is returned here, so a wait for the stream must not report it again.
            waiting.iter().for_each(|work| drop(dispatch.wait(*work)));
            errors::dispatch(&error)
        })
    }

    /// Waits until no work of the previous owner can access this memory.
    ///
    /// The pool is stream-ordered: work of the same stream may use the memory immediately. A copy
    /// outside the stream has to wait for the work that is queued there.
    pub fn wait_for_previous_owner(&self) -> PyResult<()> {
        if !self.reused.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stream = match lock(&self.backing).as_ref() {
            Some(Backing::Pool(buffer, _)) => buffer.stream(),
            Some(Backing::Evictable(evictable)) => evictable.stream(),
            _ => return Ok(()),
        };
        // A failure of the previous owner's work does not concern the new owner.
        let waited = self.runtime.dispatch.drain(stream);
        waited.map_err(|error| errors::dispatch(&error))?;
        if self.runtime.memory.residency_in_use().is_some() {
            // An eviction of the previous owner is a copy that dispatch does not track.
            let moved = self.runtime.backend.synchronize_stream(stream);
            moved.map_err(|error| errors::dispatch(&error.into()))?;
        }
        self.reused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Records that operations without values wrote it, or that real values overwrote all of it.
    pub fn set_uncomputed(&self, uncomputed: bool) {
        self.uncomputed.store(uncomputed, Ordering::SeqCst);
    }

    pub fn is_uncomputed(&self) -> bool {
        self.uncomputed.load(Ordering::SeqCst)
    }

    /// Rejects reads of contents that a simulated operation was to compute.
    pub fn require_values(&self, operation: &str) -> PyResult<()> {
        match self.is_uncomputed() {
            false => Ok(()),
            true => Err(errors::of_class(
                "DeviceError",
                "no_values",
                &format!(
                    "{operation}: expected values, got the output of simulated operations, which \
                     take time and compute nothing\nhint: compute on \"cpu\", or on a GPU"
                ),
            )),
        }
    }

    /// The streams with unfinished work that uses it.
    pub fn streams_in_use(&self) -> Vec<StreamId> {
        lock(&self.uses).streams().collect()
    }

    /// The address for libraries that use the same device.
    pub fn device_pointer(&self) -> *mut u8 {
        let address = self.address().map_or(0, Address::value);
        ptr::with_exposed_provenance_mut(address as usize)
    }

    /// The address for the host; only host memory has one.
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
            // Never dereferenced: there are no bytes.
            None => ptr::without_provenance_mut(64),
        })
    }

    pub fn exports(&self) -> usize {
        self.exports.load(Ordering::SeqCst)
    }

    /// Pins the address and blocks an explicit free until the export ends.
    pub fn export(&self) {
        self.exports.fetch_add(1, Ordering::SeqCst);
    }

    pub fn unexport(&self) {
        self.exports.fetch_sub(1, Ordering::SeqCst);
    }

    /// Frees the memory now; rejected while there are exports.
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

/// Frees memory without the GIL: another thread may hold the pool's lock and wait for the GIL.
fn release(py: Python<'_>, runtime: &Arc<DeviceRuntime>, backing: Backing) {
    match backing {
        Backing::Pool(..) | Backing::Evictable(_) if HostFunctionScope::is_active() => {
            runtime.defer_free(backing)
        }
        Backing::Pool(..) | Backing::Evictable(_) => {
            py.detach(|| backing.free(&*runtime.backend, &runtime.dispatch))
        }
        // Python objects own this memory, and dropping them needs the GIL.
        Backing::Object(_) | Backing::Tensor(_) | Backing::Owner(_) => drop(backing),
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let backing = self.backing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_foreign = matches!(backing, Some(Backing::Tensor(_) | Backing::Owner(_)));
        if is_foreign && self.space == Some(Space::Device) {
            // The owner does not know of our work, so it has to finish first. Work of a failed
            // stream does not access the memory again.
            let _ = Python::attach(|py| py.detach(|| self.wait()));
        }
        let backing = self.backing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        match backing.take().map(|backing| backing.after(uses)) {
            // No thread that holds the lock of a GPU's pool waits for the GIL.
            Some(backing @ Backing::Pool(..)) if self.runtime.is_gpu() && backing.is_in_order() => {
                backing.free(&*self.runtime.backend, &self.runtime.dispatch);
            }
            Some(backing) => Python::attach(|py| release(py, &self.runtime, backing)),
            None => {}
        }
    }
}
