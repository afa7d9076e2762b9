//! One record for every launch, copy, fill, graph, allocation and free.

use crate::backend::{CopyDirection, GraphId, StreamId};
use crate::memory::CallSite;
use crate::scheduler::ring::Ring;
use crate::scheduler::sync::{Mutex, MutexGuard};
use crate::scheduler::{Taken, TaskId};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// What kind of work a record tells of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkKind {
    /// A kernel.
    Launch,
    /// A copy.
    Copy(CopyDirection),
    /// The setting of a range to one value.
    Fill,
    /// The replay of a graph.
    Graph,
    /// Memory handed out.
    Allocate,
    /// Memory taken back.
    Free,
}

impl WorkKind {
    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            WorkKind::Launch => "launch",
            WorkKind::Copy(CopyDirection::HostToDevice) => "copy to device",
            WorkKind::Copy(CopyDirection::DeviceToHost) => "copy to host",
            WorkKind::Copy(CopyDirection::DeviceToDevice) => "copy within device",
            WorkKind::Copy(CopyDirection::HostToHost) => "copy within host",
            WorkKind::Fill => "fill",
            WorkKind::Graph => "graph",
            WorkKind::Allocate => "allocate",
            WorkKind::Free => "free",
        }
    }
}

/// When work ran, by the backend's events and in its clock's time.
///
/// The start is the moment the stream reached the work; an engine busy with another stream may
/// have begun it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When the stream reached it.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
}

impl Span {
    /// How long it took.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// One piece of work that is over.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkRecord {
    /// Counts all records of the recorder, from zero.
    pub sequence: u64,
    /// What it was.
    pub kind: WorkKind,
    /// The operation it belongs to.
    pub name: Arc<str>,
    /// The stream it ran on.
    pub stream: StreamId,
    /// Bytes moved or allocated.
    pub bytes: u64,
    /// Floating-point operations, as its caller counts them.
    pub flops: f64,
    /// The graph it replayed; the graph's nodes name the operations inside.
    pub graph: Option<GraphId>,
    /// The task it was charged to.
    pub task: Option<TaskId>,
    /// The line of source that asked, for allocations.
    pub site: Option<CallSite>,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// When it ran, where events were recorded around it.
    pub span: Option<Span>,
    /// Why it failed, as an error code, if it did.
    pub failure: Option<&'static str>,
}

/// Sums over all records ever made, forgotten ones included.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RecordTotals {
    /// Kernels launched.
    pub launches: u64,
    /// Copies made.
    pub copies: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Fills made.
    pub fills: u64,
    /// Graphs replayed.
    pub graphs: u64,
    /// Allocations made.
    pub allocations: u64,
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Allocations given back.
    pub frees: u64,
    /// Work that failed.
    pub failures: u64,
    /// Floating-point operations of finished work.
    pub flops: f64,
}

impl RecordTotals {
    fn add(&mut self, record: &WorkRecord) {
        if record.failure.is_some() {
            self.failures += 1;
            return;
        }
        match record.kind {
            WorkKind::Launch => self.launches += 1,
            WorkKind::Copy(_) => {
                self.copies += 1;
                self.copied_bytes += record.bytes;
            }
            WorkKind::Fill => self.fills += 1,
            WorkKind::Graph => self.graphs += 1,
            WorkKind::Allocate => {
                self.allocations += 1;
                self.allocated_bytes += record.bytes;
            }
            WorkKind::Free => self.frees += 1,
        }
        self.flops += record.flops;
    }
}

struct Log {
    ring: Ring<WorkRecord>,
    totals: RecordTotals,
}

/// The ring of records of one device, shared by dispatch, transfers and allocations.
///
/// Its lock is held for one push. Nothing can panic under it, so a poisoned lock is used on.
pub struct Recorder {
    log: Mutex<Log>,
}

impl Recorder {
    /// A recorder that keeps this many records and counts what it forgets.
    pub fn new(capacity: usize) -> Self {
        Recorder {
            log: Mutex::new(Log {
                ring: Ring::new(capacity.max(1)),
                totals: RecordTotals::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record and numbers it.
    pub(crate) fn push(&self, mut record: WorkRecord) {
        let mut log = self.lock();
        log.totals.add(&record);
        log.ring.push(|sequence| {
            record.sequence = sequence;
            record
        });
    }

    /// Takes the records since the last call, and how many were forgotten meanwhile.
    pub fn take(&self) -> Taken<WorkRecord> {
        let capacity = self.lock().ring.capacity();
        let fresh = VecDeque::with_capacity(capacity);
        let (records, dropped) = self.lock().ring.take(fresh);
        Taken {
            records: records.into(),
            dropped,
        }
    }

    /// The sums so far.
    pub fn totals(&self) -> RecordTotals {
        self.lock().totals
    }
}
