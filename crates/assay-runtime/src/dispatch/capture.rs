//! Capture of submitted work into a graph.
//!
//! Work submitted to the captured stream is noted by the backend instead of run, and here with
//! the operation it belongs to. Another stream joins by submitting work that comes after captured
//! work; all are joined back at the end. While a thread captures, it can neither allocate nor
//! copy host memory outside the captured streams: a replay would not repeat either.

use super::error::DispatchError;
use super::flight::Tools;
use super::graph::{Graph, GraphNode};
use super::mark::Mark;
use super::queue::StreamBooks;
use super::work::{Place, Work, WorkId, WorkRequest};
use super::{Shared, lock};
use crate::backend::StreamId;
use crate::sync::{Mutex, MutexGuard};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::ThreadId;

/// A capture under way.
pub(super) struct CaptureBooks {
    pub number: u64,
    pub origin: StreamId,
    pub thread: ThreadId,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    nodes: Vec<(GraphNode, Work)>,
    /// Streams that take part, the first of which began it.
    streams: Vec<StreamId>,
    /// Nothing more can be captured.
    ended: bool,
    /// Events inside the capture, which stand for places in the graph until it ends.
    marks: Vec<Arc<Mark>>,
}

impl CaptureBooks {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A capture in the hands of whoever began it. Dropping it without [`Capture::end`] discards it.
pub struct Capture {
    shared: Arc<Shared>,
    books: Arc<CaptureBooks>,
    ended: bool,
}

impl Shared {
    pub(super) fn begin_capture(
        self: &Arc<Self>,
        stream: StreamId,
    ) -> Result<Capture, DispatchError> {
        let queue = self.queue(stream)?;
        self.pump(&queue)?;
        let mut books = lock(&queue.books)?;
        books.check_alive()?;
        if !books.waiting.is_empty() {
            return Err(DispatchError::CaptureBusy {
                stream,
                waiting: books.waiting.len(),
            });
        }
        books.mark_before_capture(&self.tools, stream)?;
        self.tools.backend.begin_capture(stream)?;
        let capture = Arc::new(CaptureBooks {
            number: self.fresh_number(),
            origin: stream,
            thread: std::thread::current().id(),
            notes: Mutex::new(Notes {
                streams: vec![stream],
                ..Notes::default()
            }),
        });
        books.capture = Some(Arc::clone(&capture));
        drop(books);
        let mut captures = self.captures()?;
        captures.push(Arc::clone(&capture));
        self.capture_count.store(captures.len(), Ordering::Release);
        drop(captures);
        Ok(Capture {
            shared: Arc::clone(self),
            books: capture,
            ended: false,
        })
    }

    /// The capture that a request belongs to: its stream's, or that of work it comes after.
    pub(super) fn capture_of(
        &self,
        request: &WorkRequest,
        own: Option<&Arc<CaptureBooks>>,
    ) -> Result<Option<Arc<CaptureBooks>>, DispatchError> {
        if let Some(capture) = own {
            return Ok(Some(Arc::clone(capture)));
        }
        let joined = request.after.iter().find_map(|work| match work.place {
            Place::Node { capture, .. } => Some(capture),
            Place::Queue(_) => None,
        });
        let Some(number) = joined else {
            return Ok(None);
        };
        let captures = self.captures()?;
        match captures.iter().find(|capture| capture.number == number) {
            Some(capture) => Ok(Some(Arc::clone(capture))),
            None => Err(DispatchError::Captured {
                stream: request.stream,
            }),
        }
    }

    /// The capture that the calling thread has under way, if any.
    pub(super) fn thread_capture(&self) -> Result<Option<Arc<CaptureBooks>>, DispatchError> {
        if self.capture_count.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let thread = std::thread::current().id();
        let captures = self.captures()?;
        Ok(captures
            .iter()
            .find(|books| books.thread == thread)
            .cloned())
    }

    /// Notes work in a capture, joining its stream to it if need be.
    pub(super) fn capture_work(
        &self,
        capture: &Arc<CaptureBooks>,
        request: &WorkRequest,
    ) -> Result<WorkId, DispatchError> {
        let stream = request.stream;
        let refused = |source| DispatchError::Refused {
            name: request.name.to_string(),
            stream,
            source,
        };
        let mut marks = Vec::new();
        for work in &request.after {
            match work.place {
                Place::Node {
                    capture: number, ..
                } if number == capture.number => {
                    if work.stream != stream {
                        let queue = self.queue(work.stream)?;
                        let _order = lock(&queue.books)?;
                        marks.push(self.tools.marks.record(work.stream).map_err(refused)?);
                    }
                }
                _ if self.is_finished(*work)? => {}
                _ => {
                    return Err(DispatchError::CaptureDependency {
                        name: request.name.to_string(),
                        origin: capture.origin,
                    });
                }
            }
        }
        let queue = self.queue(stream)?;
        let mut books = lock(&queue.books)?;
        books.check_alive()?;
        if books.capture.is_none() {
            books.take_in(&self.tools, stream);
            if !books.waiting.is_empty() {
                return Err(DispatchError::CaptureBusy {
                    stream,
                    waiting: books.waiting.len(),
                });
            }
            books.mark_before_capture(&self.tools, stream)?;
        }
        let mut notes = capture.notes();
        if notes.ended {
            return Err(DispatchError::CaptureEnded {
                name: request.name.to_string(),
                stream,
            });
        }
        for mark in marks {
            mark.hold(stream).map_err(refused)?;
            notes.marks.push(mark);
            books.capture = Some(Arc::clone(capture));
            if !notes.streams.contains(&stream) {
                notes.streams.push(stream);
            }
        }
        let enqueued = request.work.enqueue(&*self.tools.backend, stream);
        enqueued.map_err(refused)?;
        let index = notes.nodes.len() as u32;
        let node = GraphNode {
            index,
            kind: request.work.kind(),
            name: Arc::clone(&request.name),
            stream,
            bytes: request.bytes,
            flops: request.flops,
        };
        notes.nodes.push((node, request.work.clone()));
        Ok(WorkId {
            stream,
            place: Place::Node {
                capture: capture.number,
                index,
            },
        })
    }

    /// Ends a capture in the backend and frees its streams, whatever comes of it.
    fn end_capture(&self, capture: &Arc<CaptureBooks>) -> Result<Graph, DispatchError> {
        let joined = self.join_back(capture);
        let graph = self.tools.backend.end_capture(capture.origin);
        let (nodes, streams, marks) = {
            let mut notes = capture.notes();
            let notes = &mut *notes;
            let take = (&mut notes.nodes, &mut notes.streams, &mut notes.marks);
            (
                std::mem::take(take.0),
                std::mem::take(take.1),
                std::mem::take(take.2),
            )
        };
        for stream in streams {
            let queue = self.queue(stream)?;
            lock(&queue.books)?.capture = None;
        }
        let mut captures = self.captures()?;
        captures.retain(|other| other.number != capture.number);
        self.capture_count.store(captures.len(), Ordering::Release);
        drop((captures, marks));
        let graph = Graph::new(Arc::clone(&self.tools.backend), graph?, nodes);
        joined?;
        Ok(graph)
    }

    /// Makes the first stream of a capture wait for the others.
    fn join_back(&self, capture: &Arc<CaptureBooks>) -> Result<(), DispatchError> {
        let mut notes = capture.notes();
        notes.ended = true;
        let others: Vec<StreamId> = notes.streams.iter().skip(1).copied().collect();
        for stream in others {
            let mark = self.tools.marks.record(stream)?;
            mark.hold(capture.origin)?;
            notes.marks.push(mark);
        }
        Ok(())
    }
}

impl StreamBooks {
    /// Marks the end of work in flight, since a mark recorded later would be captured.
    fn mark_before_capture(
        &mut self,
        tools: &Tools,
        stream: StreamId,
    ) -> Result<(), DispatchError> {
        match self.is_marked(tools, stream) {
            true => Ok(()),
            false => Err(DispatchError::CaptureBusy {
                stream,
                waiting: self.in_flight(),
            }),
        }
    }

    /// The error of a stream that does no more, or that no call has returned yet.
    pub fn check_alive(&mut self) -> Result<(), DispatchError> {
        match self.untold.take().or_else(|| self.dead.clone()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Capture {
    /// The stream on which it began.
    pub fn stream(&self) -> StreamId {
        self.books.origin
    }

    /// Ends the capture and gives the graph.
    pub fn end(mut self) -> Result<Graph, DispatchError> {
        self.ended = true;
        self.shared.end_capture(&self.books)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.ended {
            // Nobody wants the graph; what matters is that the streams run again.
            let _ = self.shared.end_capture(&self.books);
        }
    }
}
