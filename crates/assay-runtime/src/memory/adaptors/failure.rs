//! Asks for help when memory is short, and tries again.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, MemoryResource, Request, Result, Usage};

/// A request that could not be met for want of memory.
#[derive(Debug)]
pub struct Failure<'a> {
    /// The request.
    pub request: &'a Request,
    /// Why it was refused.
    pub error: &'a MemoryError,
    /// How often it was tried, counted from one.
    pub attempt: u32,
}

/// What to do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Something was freed; try again.
    Retry,
    /// Nothing can be done; let the error through.
    GiveUp,
}

type Callback = Box<dyn Fn(&Failure<'_>) -> Decision + Send + Sync>;

/// Calls back when the resource below is short of memory.
pub struct FailureCallback<R> {
    inner: R,
    most_attempts: u32,
    callback: Callback,
}

impl<R: MemoryResource> FailureCallback<R> {
    /// Tries each request at most `most_attempts` times, asking `callback` in between.
    ///
    /// The callback hears of shortage only: other errors cannot be helped by freeing.
    pub fn new(
        inner: R,
        most_attempts: u32,
        callback: impl Fn(&Failure<'_>) -> Decision + Send + Sync + 'static,
    ) -> Self {
        FailureCallback {
            inner,
            most_attempts,
            callback: Box::new(callback),
        }
    }

    /// The resource below.
    pub fn inner(&self) -> &R {
        &self.inner
    }
}

impl<R: MemoryResource> MemoryResource for FailureCallback<R> {
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
            if attempt >= self.most_attempts || !error.is_pressure() {
                return Err(error);
            }
            let failure = Failure {
                request,
                error: &error,
                attempt,
            };
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
