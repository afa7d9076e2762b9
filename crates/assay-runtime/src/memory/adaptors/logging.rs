//! Writes down every request, for replay.

use crate::backend::{Space, StreamId};
use crate::clock::Clock;
use crate::memory::error::MemoryError;
use crate::memory::log::{Action, AllocationLog, Record};
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, TenantId, Usage};
use crate::sync::{Mutex, MutexGuard};

/// Adds an [`AllocationLog`] to a resource.
///
/// The log's lock is held around the call below, so that the order in the log is the order in
/// which the resource saw the requests.
pub struct Logging<R> {
    inner: R,
    clock: Box<dyn Clock>,
    log: Mutex<AllocationLog>,
}

impl<R: MemoryResource> Logging<R> {
    /// Logs from here on, with times of this clock.
    pub fn new(inner: R, clock: impl Clock + 'static) -> Self {
        Logging {
            inner,
            clock: Box::new(clock),
            log: Mutex::new(AllocationLog::default()),
        }
    }

    /// The resource below.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn log(&self) -> Result<MutexGuard<'_, AllocationLog>> {
        self.log.lock().map_err(|_| MemoryError::Poisoned {
            resource: "logging adaptor",
        })
    }

    /// The log so far; it starts anew.
    pub fn take_log(&self) -> Result<AllocationLog> {
        Ok(std::mem::take(&mut *self.log()?))
    }
}

impl<R: MemoryResource> MemoryResource for Logging<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let mut log = self.log()?;
        let outcome = self.inner.allocate(request);
        let (action, address) = match &outcome {
            Ok(allocation) => (Action::Allocate, allocation.address().value()),
            Err(_) => (Action::Refuse, 0),
        };
        log.records.push(Record {
            time_ns: self.clock.now_ns(),
            action,
            stream: request.stream,
            tenant: request.tenant,
            bytes: request.bytes,
            address,
        });
        outcome
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        let mut log = self.log()?;
        self.inner.deallocate(allocation, stream)?;
        log.records.push(Record {
            time_ns: self.clock.now_ns(),
            action: Action::Free,
            stream,
            tenant: TenantId::DEFAULT,
            bytes: allocation.bytes(),
            address: allocation.address().value(),
        });
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
