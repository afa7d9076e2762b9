//! The streams of a device that some thread is capturing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use assay_runtime::backend::StreamId;
use assay_runtime::dispatch::WorkRequest;
use pyo3::prelude::*;

use super::errors;

/// The streams of a device whose work is captured.
#[derive(Default)]
pub(super) struct CapturedStreams {
    streams: Mutex<Vec<StreamId>>,
    /// The number of captured streams; 0 skips the lock.
    count: AtomicUsize,
}

impl CapturedStreams {
    pub fn set(&self, stream: StreamId, captured: bool) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|other| *other != stream);
        if captured {
            streams.push(stream);
        }
        self.count.store(streams.len(), Ordering::Release);
    }

    /// Rejects work on a stream that another thread captures: no graph would keep its memory alive.
    pub fn refuse(&self, request: &WorkRequest) -> PyResult<()> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        match streams.contains(&request.stream) {
            false => Ok(()),
            true => Err(errors::invalid(&format!(
                "{}: expected a stream that no other thread captures, got stream {}",
                request.name, request.stream.0
            ))),
        }
    }
}
