//! Memory whose allocations are recorded, and refused while a graph is captured.

use super::Shared;
use super::record::{WorkKind, WorkRecord};
use crate::backend::{BackendError, Operation, Space, StreamId};
use crate::memory::{Allocation, CallSite, MemoryError, MemoryResource, Request, Result, Usage};
use std::sync::Arc;

/// A memory resource seen through a dispatch controller.
pub struct RecordedMemory<R> {
    inner: R,
    name: Arc<str>,
    shared: Arc<Shared>,
}

impl<R: MemoryResource> RecordedMemory<R> {
    pub(super) fn new(inner: R, name: &str, shared: Arc<Shared>) -> Self {
        RecordedMemory {
            inner,
            name: Arc::from(name),
            shared,
        }
    }

    /// The resource underneath.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn operation(&self) -> Operation {
        match self.inner.space() {
            Space::Device => Operation::AllocateDevice,
            Space::Host => Operation::AllocateHost,
        }
    }

    fn note(
        &self,
        kind: WorkKind,
        bytes: u64,
        stream: StreamId,
        site: Option<CallSite>,
        failure: Option<&'static str>,
    ) {
        self.shared.tools.recorder.push(WorkRecord {
            sequence: 0,
            kind,
            name: Arc::clone(&self.name),
            stream,
            bytes,
            flops: 0.0,
            graph: None,
            task: None,
            site,
            submitted_ns: self.shared.tools.backend.clock().now_ns(),
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
        // A replay would use the memory again without anyone having allocated it.
        if let Some(stream) = self.shared.capturing(request.stream) {
            let operation = self.operation();
            let refusal = MemoryError::Backend(BackendError::Capturing { operation, stream });
            let failure = Some(refusal.code());
            let site = Some(request.site);
            self.note(
                WorkKind::Allocate,
                request.bytes,
                request.stream,
                site,
                failure,
            );
            return Err(refusal);
        }
        let outcome = self.inner.allocate(request);
        let failure = outcome.as_ref().err().map(MemoryError::code);
        let site = Some(request.site);
        self.note(
            WorkKind::Allocate,
            request.bytes,
            request.stream,
            site,
            failure,
        );
        outcome
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        let outcome = self.inner.deallocate(allocation, stream);
        let failure = outcome.as_ref().err().map(MemoryError::code);
        self.note(WorkKind::Free, allocation.bytes(), stream, None, failure);
        outcome
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
