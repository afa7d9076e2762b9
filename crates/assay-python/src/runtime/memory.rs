//! The memory resources of a device: a pool under a stack of adaptors.
//!
//! From the bottom: pool, statistics, limit, optional log and call-site tracking, records, and at
//! the top the failure callback that evicts. Evictable memory is allocated below that callback.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use assay_runtime::backend::{Backend, Space, StreamId};
use assay_runtime::clock::Clock;
use assay_runtime::dispatch::{DispatchController, RecordedMemory};
use assay_runtime::memory::adaptors::{
    FailureCallbackAdaptor, LimitingAdaptor, LoggingAdaptor, StatisticsAdaptor, TrackingAdaptor,
};
use assay_runtime::memory::{
    CallSite, MemoryError, MemoryResource, Pool, PoolOptions, Residency, Result,
};

use super::memory_pressure::MemoryPressure;

type Resource = Arc<dyn MemoryResource>;

/// How often one allocation is retried before its error is returned.
const MAX_ATTEMPTS: u32 = 10_000;

/// Options of a device's memory.
#[derive(Clone, Copy, Default)]
pub(super) struct MemoryOptions {
    /// The pool's capacity; by default the device's memory.
    pub pool_bytes: Option<u64>,
    /// The limit on requested bytes.
    pub limit_bytes: Option<u64>,
    /// Pinned host memory for evicted and pinned buffers; by default as much as device memory.
    pub host_bytes: Option<u64>,
    pub tracking: bool,
    pub logging: bool,
}

/// The clock of a device, as an owned value.
pub(super) struct DeviceClock(pub Arc<dyn Backend>);

impl Clock for DeviceClock {
    fn now_ns(&self) -> u64 {
        self.0.clock().now_ns()
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.0.clock().sleep_until_ns(deadline_ns);
    }
}

/// The memory resources of one device.
pub(super) struct DeviceMemory {
    backend: Arc<dyn Backend>,
    dispatch: DispatchController,
    pub pool: Arc<Pool>,
    pub statistics: Arc<StatisticsAdaptor<Resource>>,
    pub tracking: Option<Arc<TrackingAdaptor<Resource>>>,
    pub logging: Option<Arc<LoggingAdaptor<Resource>>>,
    /// The resource of evictable memory.
    below: Resource,
    /// The resource of all other memory.
    top: Resource,
    pub pressure: Arc<MemoryPressure>,
    host_bytes: u64,
    host: OnceLock<Arc<RecordedMemory<Arc<Pool>>>>,
    residency: OnceLock<Arc<Residency>>,
}

impl DeviceMemory {
    pub fn new(
        backend: &Arc<dyn Backend>,
        dispatch: &DispatchController,
        options: MemoryOptions,
    ) -> Result<Self> {
        let device_bytes = backend.properties().memory_bytes;
        let capacity = options.pool_bytes.unwrap_or(device_bytes);
        let pool_options = PoolOptions::new(Space::Device, capacity);
        let pool = Arc::new(Pool::new(Arc::clone(backend), pool_options)?);
        let mut below: Resource = pool.clone();
        let statistics = Arc::new(StatisticsAdaptor::new(below));
        below = statistics.clone();
        if let Some(limit_bytes) = options.limit_bytes {
            below = Arc::new(LimitingAdaptor::new(below, limit_bytes));
        }
        let logging = options.logging.then(|| {
            let clock = DeviceClock(Arc::clone(backend));
            Arc::new(LoggingAdaptor::new(Arc::clone(&below), clock))
        });
        if let Some(logging) = &logging {
            below = logging.clone();
        }
        let tracking = options.tracking.then(|| Arc::new(TrackingAdaptor::new(Arc::clone(&below))));
        if let Some(tracking) = &tracking {
            below = tracking.clone();
        }
        let below: Resource = Arc::new(dispatch.record_memory(below, "array"));
        let pressure = Arc::new(MemoryPressure::new(dispatch.clone()));
        let handler = Arc::clone(&pressure);
        let top = FailureCallbackAdaptor::new(Arc::clone(&below), MAX_ATTEMPTS, move |failure| {
            handler.on_failure(failure)
        });
        Ok(DeviceMemory {
            backend: Arc::clone(backend),
            dispatch: dispatch.clone(),
            pool,
            statistics,
            tracking,
            logging,
            below,
            top: Arc::new(top),
            pressure,
            host_bytes: options.host_bytes.unwrap_or(device_bytes),
            host: OnceLock::new(),
            residency: OnceLock::new(),
        })
    }

    /// The resource to allocate from.
    pub fn resource(&self) -> Resource {
        Arc::clone(&self.top)
    }

    /// The pool of pinned host memory, created on first use.
    pub fn host(&self) -> Result<&Arc<RecordedMemory<Arc<Pool>>>> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let options = PoolOptions::new(Space::Host, self.host_bytes);
        let pool = Arc::new(Pool::new(Arc::clone(&self.backend), options)?);
        let recorded = Arc::new(self.dispatch.record_memory(pool, "pinned"));
        Ok(self.host.get_or_init(|| recorded))
    }

    /// The pool of pinned host memory, if it exists.
    pub fn host_in_use(&self) -> Option<&Pool> {
        self.host.get().map(|host| &**host.inner())
    }

    /// The residency manager of evictable memory, created on first use.
    pub fn residency(&self) -> Result<&Arc<Residency>> {
        if let Some(residency) = self.residency.get() {
            return Ok(residency);
        }
        let host: Resource = self.host()?.clone();
        let backend = Arc::clone(&self.backend);
        let residency = Residency::new(backend, Arc::clone(&self.below), host);
        let residency = self.residency.get_or_init(|| residency);
        self.pressure.set_residency(residency);
        Ok(residency)
    }

    /// The residency manager, if there is evictable memory.
    pub fn residency_in_use(&self) -> Option<&Arc<Residency>> {
        self.residency.get()
    }

    /// Must be called before a stream whose work is complete is destroyed.
    pub fn forget_stream(&self, stream: StreamId) {
        // Errors cannot be reported any more.
        let _ = self.pool.forget_stream(stream);
        if let Some(host) = self.host_in_use() {
            let _ = host.forget_stream(stream);
        }
        if let Some(residency) = self.residency_in_use() {
            let _ = residency.forget_stream(stream);
        }
    }

    /// Records evictions and restores.
    pub fn record_movements(&self) -> std::result::Result<(), MemoryError> {
        match self.residency.get() {
            Some(residency) => self.dispatch.record_movements(residency),
            None => Ok(()),
        }
    }
}

/// A line of Python source as a call site.
///
/// Call sites have static file names, as those of Rust code; each file name is leaked once.
pub(super) fn call_site(file: &str, line: u32) -> CallSite {
    static FILES: Mutex<Option<HashMap<String, &'static str>>> = Mutex::new(None);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_with(HashMap::new);
    let name = match files.get(file) {
        Some(name) => name,
        None => {
            let name: &'static str = Box::leak(file.to_owned().into_boxed_str());
            files.insert(file.to_owned(), name);
            name
        }
    };
    CallSite { file: name, line }
}
