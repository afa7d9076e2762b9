//! A capture under way, and the graph it results in.

use crate::backend::{CaptureClocks, StreamId};

/// A command inside a captured graph. Records are numbered within their graph.
#[derive(Clone, Debug)]
pub enum CapturedCommand<W> {
    /// Runs the work.
    Work(W),
    /// Resolves the waits for this record.
    Record(usize),
    /// Blocks the branch until this record is resolved.
    Wait(usize),
}

/// A finished capture.
#[derive(Clone, Debug)]
pub struct CapturedGraph<W> {
    /// The commands in the order of capture, each with its branch.
    ///
    /// A wait comes after its record in this order, so that running the list on one stream keeps
    /// every dependency.
    pub commands: Vec<(usize, CapturedCommand<W>)>,
    /// Streams that took part; branch 0 is the stream on which the capture began.
    pub branches: usize,
    /// Records inside the graph.
    pub records: usize,
}

/// A capture under way.
pub(super) struct Capture<W> {
    clocks: CaptureClocks,
    commands: Vec<(usize, CapturedCommand<W>)>,
    records: usize,
}

impl<W> Capture<W> {
    pub fn new(origin: StreamId) -> Self {
        Capture { clocks: CaptureClocks::new(origin), commands: Vec::new(), records: 0 }
    }

    pub fn add_branch(&mut self, stream: StreamId) -> usize {
        self.clocks.add_branch(stream)
    }

    pub fn add_work(&mut self, branch: usize, work: W) {
        self.commands.push((branch, CapturedCommand::Work(work)));
        self.clocks.tick(branch);
    }

    /// Adds a record and returns its index and its branch's clock.
    pub fn add_record(&mut self, branch: usize) -> (usize, Vec<u64>) {
        let record = self.records;
        self.records += 1;
        self.commands.push((branch, CapturedCommand::Record(record)));
        (record, self.clocks.clock(branch))
    }

    pub fn add_wait(&mut self, branch: usize, record: usize, clock: &[u64]) {
        self.commands.push((branch, CapturedCommand::Wait(record)));
        self.clocks.merge(branch, clock);
    }

    pub fn streams(&self) -> &[StreamId] {
        self.clocks.streams()
    }

    pub fn unjoined(&self) -> Option<StreamId> {
        self.clocks.unjoined()
    }

    pub fn finish(self) -> CapturedGraph<W> {
        CapturedGraph {
            commands: self.commands,
            branches: self.clocks.streams().len(),
            records: self.records,
        }
    }
}
