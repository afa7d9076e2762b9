//! Vector clocks of a capture: which captured work each stream is ordered after.

use super::types::StreamId;

/// One vector clock for each stream that takes part in a capture.
///
/// The stream that began the capture is branch 0; a stream that waits for an event of the capture
/// becomes another branch. An event carries its branch's clock at the record, and the waiting
/// branch merges it, so that clocks order the captured work by happens-before. Work that branch 0
/// is not ordered after at the end would be left out of the graph.
///
/// ```
/// use assay_runtime::backend::{CaptureClocks, StreamId};
/// let mut clocks = CaptureClocks::new(StreamId(3));
/// let fork = clocks.clock(0);
/// let branch = clocks.add_branch(StreamId(4));
/// clocks.merge(branch, &fork);
/// clocks.tick(branch);
/// assert_eq!(clocks.unjoined(), Some(StreamId(4)));
/// let join = clocks.clock(branch);
/// clocks.merge(0, &join);
/// assert_eq!(clocks.unjoined(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureClocks {
    streams: Vec<StreamId>,
    /// By branch. A component that is missing at the end of a clock is 0.
    clocks: Vec<Vec<u64>>,
}

impl CaptureClocks {
    /// A capture that begins on this stream, branch 0.
    pub fn new(origin: StreamId) -> Self {
        CaptureClocks { streams: vec![origin], clocks: vec![vec![1]] }
    }

    /// Adds a stream to the capture and returns its branch.
    pub fn add_branch(&mut self, stream: StreamId) -> usize {
        let branch = self.streams.len();
        self.streams.push(stream);
        let mut clock = vec![0; branch + 1];
        clock[branch] = 1;
        self.clocks.push(clock);
        branch
    }

    /// Counts one captured operation on a branch.
    pub fn tick(&mut self, branch: usize) {
        self.clocks[branch][branch] += 1;
    }

    /// The branch's clock now, for an event recorded on it.
    pub fn clock(&self, branch: usize) -> Vec<u64> {
        self.clocks[branch].clone()
    }

    /// Orders the branch after everything in an event's clock.
    pub fn merge(&mut self, branch: usize, event: &[u64]) {
        let clock = &mut self.clocks[branch];
        if clock.len() < event.len() {
            clock.resize(event.len(), 0);
        }
        for (own, other) in clock.iter_mut().zip(event) {
            *own = (*own).max(*other);
        }
    }

    /// The streams of the capture by branch.
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    /// The first stream with captured work that branch 0 is not ordered after.
    pub fn unjoined(&self) -> Option<StreamId> {
        let origin = &self.clocks[0];
        let left = (1..self.streams.len()).find(|&branch| {
            origin.get(branch).copied().unwrap_or(0) < self.clocks[branch][branch]
        })?;
        Some(self.streams[left])
    }
}
