//! Logs every request, for replay.

use crate::backend::{Space, StreamId};
use crate::clock::Clock;
use crate::memory::allocation_log::{Action, AllocationLog, Record};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, TenantId, Usage};
use crate::sync::{Mutex, MutexGuard};

/// Adds an [`AllocationLog`] to a resource.
///
/// The log's lock is held during the upstream call, so that the log has the order in which the
/// upstream resource processed the requests.
pub struct LoggingAdaptor<R> {
    inner: R,
    clock: Box<dyn Clock>,
    log: Mutex<AllocationLog>,
}

impl<R: MemoryResource> LoggingAdaptor<R> {
    /// Logs with times of this clock.
    pub fn new(inner: R, clock: impl Clock + 'static) -> Self {
        LoggingAdaptor { inner, clock: Box::new(clock), log: Mutex::new(AllocationLog::default()) }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn log(&self) -> Result<MutexGuard<'_, AllocationLog>> {
        self.log.lock().map_err(|_| MemoryError::Poisoned { resource: "logging adaptor" })
    }

    /// Takes the log so far; logging continues in an empty one.
    pub fn take_log(&self) -> Result<AllocationLog> {
        Ok(std::mem::take(&mut *self.log()?))
    }
}

impl<R: MemoryResource> MemoryResource for LoggingAdaptor<R> {
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
