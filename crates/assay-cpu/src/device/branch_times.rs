//! When the nodes of a replay's branches ran.

use assay_runtime::trace::SpanLog;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// When the nodes of one replay ran.
#[derive(Debug)]
pub(super) struct ReplayTimes {
    ticket: u64,
    /// Start and end of each node.
    stamps: Vec<AtomicU64>,
    /// Nodes that have not ended.
    remaining: AtomicUsize,
}

impl ReplayTimes {
    pub fn new(ticket: u64, nodes: usize) -> Self {
        ReplayTimes {
            ticket,
            stamps: (0..2 * nodes).map(|_| AtomicU64::new(0)).collect(),
            remaining: AtomicUsize::new(nodes),
        }
    }

    /// Keeps the times of a node; the last one hands all of them to the trace.
    pub fn keep(&self, log: &SpanLog, node: u32, start_ns: u64, end_ns: u64) {
        let first = 2 * node as usize;
        for (stamp, time_ns) in self.stamps.iter().skip(first).zip([start_ns, end_ns]) {
            stamp.store(time_ns, Ordering::Relaxed);
        }
        if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            let stamps = self.stamps.iter();
            let times: Vec<u64> = stamps.map(|stamp| stamp.load(Ordering::Relaxed)).collect();
            log.push_spans(self.ticket, &times);
        }
    }
}
