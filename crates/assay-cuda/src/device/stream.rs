//! Streams and events of the driver, destroyed when the last holder lets go.

use super::capture::{CapturedMark, Membership};
use super::gpu::{Gpu, Suspect};
use crate::library::{NOT_READY, SUCCESS};
use assay_runtime::backend::{BackendError, Operation, Result, StreamId};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No implicit order with the legacy default stream, which would join all streams.
const NON_BLOCKING: u32 = 1;
/// Spinning answers at once; after this long a waiter sleeps between looks.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An in-order queue of the driver.
pub(super) struct Stream {
    pub id: StreamId,
    gpu: Arc<Gpu>,
    handle: CUstream,
    /// The capture it belongs to now.
    pub capture: Mutex<Option<Membership>>,
    last_kernel: Mutex<Option<Arc<str>>>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes a stream of the driver's priority, lower numbers being more urgent.
    pub fn new(gpu: &Arc<Gpu>, id: StreamId, priority: i32) -> Result<Self> {
        let operation = Operation::CreateStream;
        let driver = gpu.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle.
        let status =
            unsafe { (driver.cuStreamCreateWithPriority)(&raw mut handle, NON_BLOCKING, priority) };
        gpu.check(operation, status)?;
        Ok(Stream {
            id,
            gpu: Arc::clone(gpu),
            handle,
            capture: Mutex::new(None),
            last_kernel: Mutex::new(None),
        })
    }

    /// The driver's handle, good while this lives.
    pub fn handle(&self) -> CUstream {
        self.handle
    }

    /// Remembers a kernel, for naming it if the stream fails.
    pub fn note_kernel(&self, name: &Arc<str>) {
        let mut last = lock(&self.last_kernel);
        if !last.as_ref().is_some_and(|known| Arc::ptr_eq(known, name)) {
            *last = Some(Arc::clone(name));
        }
    }

    /// What a wait for this stream waits for.
    fn describe(&self) -> String {
        match &*lock(&self.last_kernel) {
            Some(kernel) => format!(
                "kernel {kernel} or what precedes it on stream {}",
                self.id.0
            ),
            None => format!("stream {}", self.id.0),
        }
    }

    /// The error for a status of the driver in a call on this stream.
    pub fn check(&self, operation: Operation, status: u32) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        let kernel = lock(&self.last_kernel).clone();
        let suspect = Suspect {
            stream: self.id,
            kernel: kernel.as_deref(),
        };
        self.gpu.check_on(operation, status, suspect)
    }

    /// Refuses a call that would wait for captured work, which does not run.
    pub fn outside_capture(&self, operation: Operation) -> Result<()> {
        match *lock(&self.capture) {
            Some(_) => Err(BackendError::Capturing {
                operation,
                stream: self.id,
            }),
            None => Ok(()),
        }
    }

    /// Whether everything queued so far is over.
    pub fn query(&self, operation: Operation) -> Result<bool> {
        let driver = self.gpu.enter(operation)?;
        // SAFETY: the stream lives.
        match unsafe { (driver.cuStreamQuery)(self.handle) } {
            NOT_READY => Ok(false),
            status => self.check(operation, status).map(|()| true),
        }
    }

    /// Waits for everything queued so far.
    pub fn synchronize(&self, operation: Operation, watchdog: &Watchdog) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        let Some(limit) = watchdog.limit else {
            // SAFETY: the stream lives.
            let status = unsafe { (driver.cuStreamSynchronize)(self.handle) };
            return self.check(operation, status);
        };
        let waited_for = || self.describe();
        watchdog.poll(operation, limit, waited_for, || self.query(operation))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Ok(driver) = self.gpu.enter(Operation::DestroyStream) {
            // SAFETY: nobody else holds the handle; work queued on it still runs.
            let _ = unsafe { (driver.cuStreamDestroy_v2)(self.handle) };
        }
    }
}

/// How long waits may last.
pub(super) struct Watchdog {
    pub limit: Option<Duration>,
    /// Something did not finish in time, and may never.
    expired: AtomicBool,
}

impl Watchdog {
    pub fn new(limit: Option<Duration>) -> Self {
        Watchdog {
            limit,
            expired: AtomicBool::new(false),
        }
    }

    /// Whether a wait was given up.
    pub fn has_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    fn poll(
        &self,
        operation: Operation,
        limit: Duration,
        waited_for: impl Fn() -> String,
        is_over: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        let beginning = Instant::now();
        while !is_over()? {
            let waited = beginning.elapsed();
            if waited >= limit {
                self.expired.store(true, Ordering::Relaxed);
                return Err(BackendError::Watchdog {
                    operation,
                    waited_for: waited_for(),
                    limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
                });
            }
            match waited < SPIN {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(NAP),
            }
        }
        Ok(())
    }
}

/// What an event stands for.
#[derive(Clone)]
pub(super) enum Mark {
    /// Nothing: it counts as finished.
    Never,
    /// A place in a stream.
    Recorded(Arc<Stream>),
    /// A place in a graph, not a moment.
    Captured(CapturedMark),
}

/// A mark of the driver in a stream.
pub(super) struct Event {
    gpu: Arc<Gpu>,
    handle: CUevent,
    pub mark: Mutex<Mark>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let operation = Operation::CreateEvent;
        let driver = gpu.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle; flags 0 keep times.
        let status = unsafe { (driver.cuEventCreate)(&raw mut handle, 0) };
        gpu.check(operation, status)?;
        Ok(Event {
            gpu: Arc::clone(gpu),
            handle,
            mark: Mutex::new(Mark::Never),
        })
    }

    /// Records it in the driver; what that stands for is the caller's to note.
    pub fn record(&self, operation: Operation, stream: &Stream) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        // SAFETY: both live.
        let status = unsafe { (driver.cuEventRecord)(self.handle, stream.handle()) };
        stream.check(operation, status)
    }

    /// Has later work of the stream wait for the mark as it is now.
    pub fn hold(&self, operation: Operation, stream: &Stream) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        // SAFETY: both live; the driver keeps the mark even if the event is destroyed.
        let status = unsafe { (driver.cuStreamWaitEvent)(stream.handle(), self.handle, 0) };
        stream.check(operation, status)
    }

    /// As [`Event::record`], in a stream of another library.
    pub fn record_foreign(&self, operation: Operation, handle: u64) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        let stream: CUstream = ptr::with_exposed_provenance_mut(handle as usize);
        // SAFETY: it lives; whoever told the handle vouches for its stream.
        let status = unsafe { (driver.cuEventRecord)(self.handle, stream) };
        self.gpu.check(operation, status)
    }

    /// As [`Event::hold`], for a stream of another library.
    pub fn hold_foreign(&self, operation: Operation, handle: u64) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        let stream: CUstream = ptr::with_exposed_provenance_mut(handle as usize);
        // SAFETY: as above; the driver keeps the mark even if the event is destroyed.
        let status = unsafe { (driver.cuStreamWaitEvent)(stream, self.handle, 0) };
        self.gpu.check(operation, status)
    }

    pub fn query(&self, operation: Operation, stream: &Stream) -> Result<bool> {
        let driver = self.gpu.enter(operation)?;
        // SAFETY: it lives.
        match unsafe { (driver.cuEventQuery)(self.handle) } {
            NOT_READY => Ok(false),
            status => stream.check(operation, status).map(|()| true),
        }
    }

    pub fn synchronize(
        &self,
        operation: Operation,
        stream: &Stream,
        watchdog: &Watchdog,
    ) -> Result<()> {
        let driver = self.gpu.enter(operation)?;
        let Some(limit) = watchdog.limit else {
            // SAFETY: it lives.
            let status = unsafe { (driver.cuEventSynchronize)(self.handle) };
            return stream.check(operation, status);
        };
        let waited_for = || stream.describe();
        watchdog.poll(operation, limit, waited_for, || {
            self.query(operation, stream)
        })
    }

    /// Nanoseconds from an earlier event; none while one of them is not reached.
    pub fn elapsed_ns(&self, first: &Event) -> Result<Option<u64>> {
        let operation = Operation::Elapsed;
        let driver = self.gpu.enter(operation)?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both live; stores one number.
        let status = unsafe {
            (driver.cuEventElapsedTime)(&raw mut milliseconds, first.handle, self.handle)
        };
        if status == NOT_READY {
            return Ok(None);
        }
        self.gpu.check(operation, status)?;
        Ok(Some((f64::from(milliseconds).max(0.0) * 1e6) as u64))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(driver) = self.gpu.enter(Operation::DestroyEvent) {
            // SAFETY: nobody else holds the handle; waits already queued for it stay valid.
            let _ = unsafe { (driver.cuEventDestroy_v2)(self.handle) };
        }
    }
}
