//! The state behind all handles of a controller.

use super::capture_state::CaptureState;
use super::context::DispatchContext;
use super::error::{DispatchError, Result};
use super::stream_state::StreamQueue;
use crate::backend::StreamId;
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) struct Shared {
    pub context: DispatchContext,
    /// The queue of the default stream.
    pub default_queue: Arc<StreamQueue>,
    /// The queues of the other streams; locked only for lookup.
    pub queues: Mutex<BTreeMap<StreamId, Arc<StreamQueue>>>,
    captures: Mutex<Vec<Arc<CaptureState>>>,
    /// The number of captures, so that the usual case, none, takes no lock.
    capture_count: AtomicUsize,
    next_id: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| DispatchError::Poisoned)
}

impl Shared {
    pub fn new(context: DispatchContext) -> Self {
        Shared {
            default_queue: Arc::new(StreamQueue::new(context.backend.default_stream())),
            context,
            queues: Mutex::new(BTreeMap::new()),
            captures: Mutex::new(Vec::new()),
            capture_count: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
        }
    }

    pub fn queue(&self, stream: StreamId) -> Result<Arc<StreamQueue>> {
        if stream == self.default_queue.stream {
            return Ok(Arc::clone(&self.default_queue));
        }
        let mut queues = lock(&self.queues)?;
        let queue = queues.entry(stream).or_insert_with(|| Arc::new(StreamQueue::new(stream)));
        Ok(Arc::clone(queue))
    }

    pub fn all_queues(&self) -> Result<Vec<Arc<StreamQueue>>> {
        let queues = lock(&self.queues)?;
        let all = std::iter::once(&self.default_queue).chain(queues.values());
        Ok(all.cloned().collect())
    }

    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn has_captures(&self) -> bool {
        self.capture_count.load(Ordering::Acquire) > 0
    }

    pub fn captures(&self) -> Result<MutexGuard<'_, Vec<Arc<CaptureState>>>> {
        lock(&self.captures)
    }

    pub fn add_capture(&self, capture: Arc<CaptureState>) -> Result<()> {
        let mut captures = self.captures()?;
        captures.push(capture);
        self.capture_count.store(captures.len(), Ordering::Release);
        Ok(())
    }

    pub fn remove_capture(&self, capture: &CaptureState) -> Result<()> {
        let mut captures = self.captures()?;
        captures.retain(|other| other.id != capture.id);
        self.capture_count.store(captures.len(), Ordering::Release);
        Ok(())
    }

    /// The capture that the calling thread has in progress, if any.
    pub fn thread_capture(&self) -> Result<Option<Arc<CaptureState>>> {
        if !self.has_captures() {
            return Ok(None);
        }
        let thread = std::thread::current().id();
        let captures = self.captures()?;
        Ok(captures.iter().find(|capture| capture.thread == thread).cloned())
    }

    /// The origin of the capture that the calling thread or this stream takes part in, if any.
    pub fn capture_origin(&self, stream: StreamId) -> Option<StreamId> {
        if !self.has_captures() {
            return None;
        }
        let of_thread = self.thread_capture().ok().flatten();
        if let Some(capture) = of_thread {
            return Some(capture.origin);
        }
        let queue = self.queue(stream).ok()?;
        let state = lock(&queue.state).ok()?;
        state.capture.as_ref().map(|capture| capture.origin)
    }
}
