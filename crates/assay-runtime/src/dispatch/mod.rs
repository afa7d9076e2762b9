//! What is queued on a device, and a record of every piece of it.
//!
//! Work goes straight to its stream as long as fewer than a limit of pieces are in flight there,
//! everything it comes after is queued, and its task has a turn; otherwise it waits here, in
//! order, and past a second limit it is refused. Order between streams is kept by events. A
//! stream under capture notes work instead of running it, and the graph that comes of it knows
//! the operation behind every node. `docs/design/transfer-and-dispatch.md` says why it is so.
//!
//! No thread of its own: submitting to a stream, waiting and [`DispatchController::poll`] move
//! work on and take finished work in.

#![forbid(unsafe_code)]

mod capture;
mod error;
mod failures;
mod flight;
mod graph;
pub(crate) mod mark;
mod memory;
mod meter;
mod options;
mod queue;
mod record;
mod replay;
mod submit;
pub(crate) mod timeline;
mod wait;
mod work;

pub use capture::Capture;
pub use error::DispatchError;
pub use graph::{Graph, GraphNode};
pub use memory::RecordedMemory;
pub use options::{DispatchOptions, Timing};
pub use record::{RecordTotals, Recorder, Span, WorkKind, WorkRecord};
pub use work::{Work, WorkId, WorkRequest};

use crate::backend::{Backend, StreamId, StreamPriority};
use crate::memory::{MemoryError, MemoryResource, Residency};
use crate::scheduler::ProgressEngine;
use crate::sync::{Mutex, MutexGuard};
use capture::CaptureBooks;
use flight::Tools;
use queue::StreamQueue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a call of the controller gives.
pub type Result<T> = std::result::Result<T, DispatchError>;

/// Everything behind the handles.
struct Shared {
    tools: Tools,
    /// That of the stream that always exists.
    default_queue: Arc<StreamQueue>,
    /// Those of the others; held only to look one up.
    queues: Mutex<BTreeMap<StreamId, Arc<StreamQueue>>>,
    captures: Mutex<Vec<Arc<CaptureBooks>>>,
    /// How many captures there are, so that the usual case, none, takes no lock.
    capture_count: AtomicUsize,
    numbers: AtomicU64,
}

fn lock<T>(books: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    books.lock().map_err(|_| DispatchError::Poisoned)
}

impl Shared {
    fn queue(&self, stream: StreamId) -> Result<Arc<StreamQueue>> {
        if stream == self.default_queue.stream {
            return Ok(Arc::clone(&self.default_queue));
        }
        let mut queues = lock(&self.queues)?;
        let queue = queues
            .entry(stream)
            .or_insert_with(|| Arc::new(StreamQueue::new(stream)));
        Ok(Arc::clone(queue))
    }

    fn all_queues(&self) -> Result<Vec<Arc<StreamQueue>>> {
        let queues = lock(&self.queues)?;
        let all = std::iter::once(&self.default_queue).chain(queues.values());
        Ok(all.cloned().collect())
    }

    fn poll(&self) -> Result<()> {
        for queue in self.all_queues()? {
            let mut books = lock(&queue.books)?;
            // During capture a mark would be captured; all work before it is marked already.
            if books.capture.is_none() {
                books.is_marked(&self.tools, queue.stream);
            }
            drop(books);
            self.pump(&queue)?;
        }
        Ok(())
    }

    fn captures(&self) -> Result<MutexGuard<'_, Vec<Arc<CaptureBooks>>>> {
        lock(&self.captures)
    }

    fn fresh_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The stream of the capture that this stream or the calling thread takes part in, if any.
    fn capturing(&self, stream: StreamId) -> Option<StreamId> {
        if self.capture_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let of_thread = self.thread_capture().ok().flatten();
        if let Some(capture) = of_thread {
            return Some(capture.origin);
        }
        let queue = self.queue(stream).ok()?;
        let books = lock(&queue.books).ok()?;
        books.capture.as_ref().map(|capture| capture.origin)
    }
}

/// How much a stream has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamUsage {
    /// Pieces queued on the device and not yet taken in.
    pub in_flight: usize,
    /// Pieces that wait here.
    pub waiting: usize,
}

/// The dispatch controller of one device. Clones are handles of the same one.
///
/// When the last handle is gone, work in flight is waited for and work in line is recorded as
/// abandoned.
#[derive(Clone)]
pub struct DispatchController {
    shared: Arc<Shared>,
}

impl DispatchController {
    /// A controller that writes its records to `recorder`.
    pub fn new(
        backend: Arc<dyn Backend>,
        options: DispatchOptions,
        recorder: Arc<Recorder>,
    ) -> Result<Self> {
        options.validate()?;
        Ok(DispatchController {
            shared: Arc::new(Shared {
                default_queue: Arc::new(StreamQueue::new(backend.default_stream())),
                tools: Tools::new(backend, options, recorder),
                queues: Mutex::new(BTreeMap::new()),
                captures: Mutex::new(Vec::new()),
                capture_count: AtomicUsize::new(0),
                numbers: AtomicU64::new(0),
            }),
        })
    }

    /// The records.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.shared.tools.recorder
    }

    /// Makes a stream.
    pub fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        Ok(self.shared.tools.backend.create_stream(priority)?)
    }

    /// Ends a stream after everything submitted to it, and forgets what it knew of it.
    ///
    /// Failures are remembered: what was written on the stream may outlive it.
    pub fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        let outcome = self.shared.synchronize(stream);
        let queue = self.shared.queue(stream)?;
        if !lock(&queue.books)?.has_failed() {
            lock(&self.shared.queues)?.remove(&stream);
        }
        self.shared.tools.backend.destroy_stream(stream)?;
        outcome
    }

    /// Queues work, or puts it in line if its stream is full or it must wait for others.
    ///
    /// An error that an earlier piece met while it stood in line is returned by the next call for
    /// its stream.
    pub fn submit(&self, request: WorkRequest) -> Result<WorkId> {
        self.add_progress_engine(&request);
        let submitted = self.shared.submit(request);
        submitted.map_err(|refused| refused.error)
    }

    /// Queues work, blocking while the line of its stream is full.
    pub fn submit_blocking(&self, mut request: WorkRequest) -> Result<WorkId> {
        self.add_progress_engine(&request);
        loop {
            let refused = match self.shared.submit(request) {
                Ok(work) => return Ok(work),
                Err(refused) => *refused,
            };
            match (refused.error, refused.request) {
                (DispatchError::TooManyWaiting { stream, .. }, Some(back)) => {
                    self.shared.wait_for_room(stream)?;
                    request = back;
                }
                (error, _) => return Err(error),
            }
        }
    }

    fn add_progress_engine(&self, request: &WorkRequest) {
        if let Some(task) = &request.task {
            let engine: Arc<dyn ProgressEngine> = self.shared.clone();
            task.add_progress_engine(&engine);
        }
    }

    /// Whether the work is over, after moving its stream on.
    pub fn is_over(&self, work: WorkId) -> Result<bool> {
        self.shared.pump(&*self.shared.queue(work.stream())?)?;
        self.shared.is_over(work)
    }

    /// How often work failed so far, on any stream; while it stands still, nothing failed.
    pub fn failures(&self) -> u64 {
        self.shared.tools.failures.load(Ordering::Acquire)
    }

    /// Why the work failed, if it did and that is known by now; a node of a capture has not.
    pub fn failure(&self, work: WorkId) -> Result<Option<DispatchError>> {
        match work.is_captured() {
            true => Ok(None),
            false => self.shared.failure(work),
        }
    }

    /// Blocks until the work is over.
    pub fn wait(&self, work: WorkId) -> Result<()> {
        self.shared.wait(work)
    }

    /// Blocks until the work is over, however it ended.
    pub fn wait_over(&self, work: WorkId) -> Result<()> {
        self.shared.outcome(work).map(|_| ())
    }

    /// Blocks until everything submitted to the stream so far is over, however it ended.
    pub fn drain(&self, stream: StreamId) -> Result<()> {
        self.shared.drain(stream)
    }

    /// Blocks until everything submitted to the stream so far is over.
    ///
    /// A failure on the device that nobody has waited for is returned once; the stream goes on.
    pub fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.shared.synchronize(stream)
    }

    /// Moves every stream on and takes in what is over.
    pub fn poll(&self) -> Result<()> {
        self.shared.poll()
    }

    /// How much a stream has to do.
    pub fn usage(&self, stream: StreamId) -> Result<StreamUsage> {
        let queue = self.shared.queue(stream)?;
        let books = lock(&queue.books)?;
        Ok(StreamUsage {
            in_flight: books.in_flight(),
            waiting: books.waiting.len(),
        })
    }

    /// From here on, work submitted to the stream is captured instead of run.
    pub fn begin_capture(&self, stream: StreamId) -> Result<Capture> {
        self.shared.begin_capture(stream)
    }

    /// Replays a graph node by node, waits for it, and tells when each node ran.
    ///
    /// The marks between nodes cost time of their own, so the whole takes longer than a replay.
    pub fn replay_timed(&self, name: &str, graph: &Graph, stream: StreamId) -> Result<Vec<Span>> {
        self.shared.replay_timed(name, graph, stream)
    }

    /// Records the spills and restores of evictable buffers since the last call.
    pub fn record_movements(&self, residency: &Residency) -> std::result::Result<(), MemoryError> {
        self.shared.record_movements(residency)
    }

    /// The resource with its allocations recorded here, and refused during capture.
    pub fn record_memory<R: MemoryResource>(&self, resource: R, name: &str) -> RecordedMemory<R> {
        RecordedMemory::new(resource, name, Arc::clone(&self.shared))
    }
}
