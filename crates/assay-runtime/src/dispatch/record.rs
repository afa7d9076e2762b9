//! One record for every launch, copy, fill, graph, allocation and free.

use crate::backend::{CopyDirection, GraphId, StreamId};
use crate::memory::CallSite;
use crate::scheduler::TaskId;
use crate::sync::{Mutex, MutexGuard};
use assay_collections::{Drained, RingBuffer};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// The kind of a recorded operation.
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
    /// An allocation.
    Allocate,
    /// A deallocation.
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

/// When work ran, measured by events and converted to the backend's clock.
///
/// The start is when the stream reached the work; an engine busy with another stream may have begun
/// it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// When the stream reached it.
    pub start_ns: u64,
    /// When it finished.
    pub end_ns: u64,
}

impl Span {
    /// How long it took.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// One finished or failed operation.
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
    /// Floating-point operations, as counted by the caller.
    pub flops: f64,
    /// The graph it replayed; the graph's nodes name the operations inside.
    pub graph: Option<GraphId>,
    /// The task it was charged to.
    pub task: Option<TaskId>,
    /// The requesting source line, for allocations.
    pub site: Option<CallSite>,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// When it ran, where events were recorded around it.
    pub span: Option<Span>,
    /// The error code, if it failed.
    pub failure: Option<&'static str>,
}

/// Sums over all records, including dropped ones.
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
    /// Deallocations.
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

/// A record as it is stored, compact because writing many must not evict the cache: fields that
/// few records have are boxed, and the sequence number follows from the index.
struct Entry {
    name: Arc<str>,
    bytes: u64,
    flops: f64,
    submitted_ns: u64,
    detail: Detail,
    rare: Option<Box<RareFields>>,
    stream: StreamId,
    kind: WorkKind,
}

/// Work has a span, an allocation a call site; never both.
enum Detail {
    None,
    Span(Span),
    Site(CallSite),
}

struct RareFields {
    graph: Option<GraphId>,
    task: Option<TaskId>,
    failure: Option<&'static str>,
}

impl From<WorkRecord> for Entry {
    fn from(record: WorkRecord) -> Self {
        let rare = RareFields { graph: record.graph, task: record.task, failure: record.failure };
        let is_rare = rare.graph.is_some() || rare.task.is_some() || rare.failure.is_some();
        Entry {
            name: record.name,
            bytes: record.bytes,
            flops: record.flops,
            submitted_ns: record.submitted_ns,
            detail: match (record.span, record.site) {
                (Some(span), _) => Detail::Span(span),
                (None, Some(site)) => Detail::Site(site),
                (None, None) => Detail::None,
            },
            rare: is_rare.then(|| Box::new(rare)),
            stream: record.stream,
            kind: record.kind,
        }
    }
}

impl Entry {
    fn record(self, sequence: u64) -> WorkRecord {
        let (span, site) = match self.detail {
            Detail::None => (None, None),
            Detail::Span(span) => (Some(span), None),
            Detail::Site(site) => (None, Some(site)),
        };
        let rare = self.rare.as_deref();
        WorkRecord {
            sequence,
            kind: self.kind,
            name: self.name,
            stream: self.stream,
            bytes: self.bytes,
            flops: self.flops,
            graph: rare.and_then(|rare| rare.graph),
            task: rare.and_then(|rare| rare.task),
            site,
            submitted_ns: self.submitted_ns,
            span,
            failure: rare.and_then(|rare| rare.failure),
        }
    }
}

struct Log {
    ring: RingBuffer<Entry>,
    totals: RecordTotals,
}

/// The ring of records of one device, shared by dispatch, transfers and allocations.
///
/// The lock is held for one push. Nothing can panic under it, so poisoning is ignored.
pub struct Recorder {
    log: Mutex<Log>,
}

impl Recorder {
    /// A recorder that keeps this many records and counts dropped ones.
    pub fn new(capacity: usize) -> Self {
        Recorder {
            log: Mutex::new(Log {
                ring: RingBuffer::new(capacity.max(1)),
                totals: RecordTotals::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record and numbers it.
    pub(crate) fn push(&self, record: WorkRecord) {
        let mut log = self.lock();
        log.totals.add(&record);
        log.ring.push(|_| record.into());
    }

    /// Takes the records since the last call, and how many were forgotten meanwhile.
    pub fn take(&self) -> Drained<WorkRecord> {
        let capacity = self.lock().ring.capacity();
        let fresh = VecDeque::with_capacity(capacity);
        let mut log = self.lock();
        let first = log.ring.first();
        let (entries, dropped) = log.ring.take(fresh);
        drop(log);
        let numbered = entries.into_iter().zip(first..);
        Drained {
            records: numbered.map(|(entry, sequence)| entry.record(sequence)).collect(),
            dropped,
        }
    }

    /// The sums so far.
    pub fn totals(&self) -> RecordTotals {
        self.lock().totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_compact_and_preserves_the_record() {
        assert!(std::mem::size_of::<Entry>() <= 88);
        let launch = WorkRecord {
            sequence: 0,
            kind: WorkKind::Launch,
            name: "add".into(),
            stream: StreamId(3),
            bytes: 12,
            flops: 4.0,
            graph: None,
            task: None,
            site: None,
            submitted_ns: 7,
            span: None,
            failure: None,
        };
        let span = Span { start_ns: 8, end_ns: 9 };
        let records = [
            WorkRecord { site: Some(CallSite::here()), kind: WorkKind::Allocate, ..launch.clone() },
            WorkRecord { span: Some(span), task: Some(TaskId(5)), ..launch.clone() },
            WorkRecord { graph: Some(GraphId(6)), failure: Some("refused"), ..launch.clone() },
            launch,
        ];
        let recorder = Recorder::new(3);
        records.iter().for_each(|record| recorder.push(record.clone()));
        let taken = recorder.take();
        assert_eq!(taken.dropped, 1);
        for (record, sequence) in taken.records.iter().zip(1..) {
            let expected = WorkRecord { sequence, ..records[sequence as usize].clone() };
            assert_eq!(*record, expected);
        }
        assert_eq!(taken.records.len(), 3);
        assert_eq!(recorder.totals().failures, 1);
    }
}
