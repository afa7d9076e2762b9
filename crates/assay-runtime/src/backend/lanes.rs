//! Which streams of a capture have been joined back to the one that began it.

use super::StreamId;

/// The streams that take part in one capture, and how far each comes after the others.
///
/// Every stream is a lane with a counter of what was captured on it. An event remembers the
/// counters its lane has seen; who waits for the event has seen them too. Whatever the first lane
/// has not seen at the end would be left outside the graph.
///
/// ```
/// use assay_runtime::backend::{CaptureLanes, StreamId};
/// let mut lanes = CaptureLanes::begin(StreamId(3));
/// let fork = lanes.seen(0);
/// let side = lanes.enter(StreamId(4));
/// lanes.come_after(side, &fork);
/// lanes.advance(side);
/// assert_eq!(lanes.unjoined(), Some(StreamId(4)));
/// let join = lanes.seen(side);
/// lanes.come_after(0, &join);
/// assert_eq!(lanes.unjoined(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureLanes {
    streams: Vec<StreamId>,
    /// For each lane, how much of every lane it comes after; itself counted up to now.
    seen: Vec<Vec<u64>>,
}

impl CaptureLanes {
    /// A capture that begins on this stream, which is lane 0.
    pub fn begin(stream: StreamId) -> Self {
        CaptureLanes {
            streams: vec![stream],
            seen: vec![vec![1]],
        }
    }

    /// Takes another stream in, and says which lane it is.
    pub fn enter(&mut self, stream: StreamId) -> usize {
        let lane = self.streams.len();
        self.streams.push(stream);
        let mut seen = vec![0; lane + 1];
        seen[lane] = 1;
        self.seen.push(seen);
        lane
    }

    /// Counts one more piece of work on a lane.
    pub fn advance(&mut self, lane: usize) {
        self.seen[lane][lane] += 1;
    }

    /// What an event recorded on the lane now stands for.
    pub fn seen(&self, lane: usize) -> Vec<u64> {
        self.seen[lane].clone()
    }

    /// Has the lane come after everything that an event stands for.
    pub fn come_after(&mut self, lane: usize, event: &[u64]) {
        let seen = &mut self.seen[lane];
        if seen.len() < event.len() {
            seen.resize(event.len(), 0);
        }
        for (mine, theirs) in seen.iter_mut().zip(event) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// The streams that take part; the first one began it.
    pub fn streams(&self) -> &[StreamId] {
        &self.streams
    }

    /// The first stream with something captured that the first lane does not come after.
    pub fn unjoined(&self) -> Option<StreamId> {
        let origin = &self.seen[0];
        let left = (1..self.streams.len())
            .find(|&lane| origin.get(lane).copied().unwrap_or(0) < self.seen[lane][lane])?;
        Some(self.streams[left])
    }
}
