//! Records of allocations, spills and restores; allocation fails during capture.

use super::record::{WorkKind, WorkRecord};
use super::shared::Shared;
use crate::backend::{BackendError, CopyDirection, Operation, Space, StreamId};
use crate::memory::{
    Allocation, CallSite, Direction, MemoryError, MemoryResource, Request, Residency, Result, Usage,
};
use std::sync::Arc;

impl Shared {
    /// Records every spill and restore of evictable buffers since the last call.
    pub(super) fn record_movements(&self, residency: &Residency) -> Result<()> {
        for movement in residency.take_movements()? {
            let (direction, name) = match movement.direction {
                Direction::Spilled => (CopyDirection::DeviceToHost, "spill"),
                Direction::Restored => (CopyDirection::HostToDevice, "restore"),
            };
            self.context.recorder.push(WorkRecord {
                sequence: 0,
                kind: WorkKind::Copy(direction),
                name: Arc::from(name),
                stream: movement.stream,
                bytes: movement.bytes,
                flops: 0.0,
                graph: None,
                task: None,
                site: None,
                submitted_ns: movement.time_ns,
                span: None,
                failure: None,
            });
        }
        Ok(())
    }
}

/// A memory resource whose allocations a dispatch controller records.
pub struct RecordedMemory<R> {
    inner: R,
    name: Arc<str>,
    shared: Arc<Shared>,
}

impl<R: MemoryResource> RecordedMemory<R> {
    pub(super) fn new(inner: R, name: &str, shared: Arc<Shared>) -> Self {
        RecordedMemory { inner, name: Arc::from(name), shared }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn operation(&self) -> Operation {
        match self.inner.space() {
            Space::Device => Operation::AllocateDevice,
            Space::Host => Operation::AllocateHost,
        }
    }

    fn record(
        &self,
        kind: WorkKind,
        bytes: u64,
        stream: StreamId,
        site: Option<CallSite>,
        failure: Option<&'static str>,
    ) {
        self.shared.context.recorder.push(WorkRecord {
            sequence: 0,
            kind,
            name: Arc::clone(&self.name),
            stream,
            bytes,
            flops: 0.0,
            graph: None,
            task: None,
            site,
            submitted_ns: self.shared.context.backend.clock().now_ns(),
            span: None,
            failure,
        });
    }
}

impl<R: MemoryResource> MemoryResource for RecordedMemory<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        // A replay would use the memory without allocating it.
        if let Some(stream) = self.shared.capture_origin(request.stream) {
            let operation = self.operation();
            let error = MemoryError::Backend(BackendError::Capturing { operation, stream });
            let failure = Some(error.code());
            let site = Some(request.site);
            self.record(WorkKind::Allocate, request.bytes, request.stream, site, failure);
            return Err(error);
        }
        let outcome = self.inner.allocate(request);
        let failure = outcome.as_ref().err().map(MemoryError::code);
        let site = Some(request.site);
        self.record(WorkKind::Allocate, request.bytes, request.stream, site, failure);
        outcome
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        let outcome = self.inner.deallocate(allocation, stream);
        let failure = outcome.as_ref().err().map(MemoryError::code);
        self.record(WorkKind::Free, allocation.bytes(), stream, None, failure);
        outcome
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
