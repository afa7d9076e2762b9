//! Calls back when memory is exhausted, and retries.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, Usage};

/// A request that failed because memory is exhausted.
#[derive(Debug)]
pub struct Failure<'a> {
    /// The request.
    pub request: &'a Request,
    /// The error.
    pub error: &'a MemoryError,
    /// The number of the attempt, counted from one.
    pub attempt: u32,
}

/// What the callback decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Memory was freed; retry the request.
    Retry,
    /// No memory can be freed; return the error.
    GiveUp,
}

type Callback = Box<dyn Fn(&Failure<'_>) -> Decision + Send + Sync>;

/// Calls back when the upstream resource is out of memory, and retries.
pub struct FailureCallbackAdaptor<R> {
    inner: R,
    max_attempts: u32,
    callback: Callback,
}

impl<R: MemoryResource> FailureCallbackAdaptor<R> {
    /// Attempts each request at most `max_attempts` times, with a call of `callback` in between.
    ///
    /// The callback gets memory pressure only: freeing memory does not help against other errors.
    pub fn new(
        inner: R,
        max_attempts: u32,
        callback: impl Fn(&Failure<'_>) -> Decision + Send + Sync + 'static,
    ) -> Self {
        FailureCallbackAdaptor { inner, max_attempts, callback: Box::new(callback) }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }
}

impl<R: MemoryResource> MemoryResource for FailureCallbackAdaptor<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let mut attempt = 1;
        loop {
            let error = match self.inner.allocate(request) {
                Ok(allocation) => return Ok(allocation),
                Err(error) => error,
            };
            if attempt >= self.max_attempts || !error.is_pressure() {
                return Err(error);
            }
            let failure = Failure { request, error: &error, attempt };
            if (self.callback)(&failure) == Decision::GiveUp {
                return Err(error);
            }
            attempt += 1;
        }
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
