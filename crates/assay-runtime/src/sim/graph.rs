//! Graphs that the simulated device can replay.

use super::work::QueuedWork;
use crate::backend::StreamId;
use crate::streams::CapturedGraph;

/// A captured graph with the internal streams of branches one and up.
pub(super) struct Graph {
    pub captured: CapturedGraph<QueuedWork>,
    pub branch_streams: Vec<StreamId>,
}
