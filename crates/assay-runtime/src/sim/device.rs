//! The state of a simulated device behind its lock.

use super::fault::FaultPlan;
use super::graph::Graph;
use super::kernel::SimKernel;
use super::memory::SimMemory;
use super::profile::SimProfile;
use super::work::{Engine, QueuedWork, SimSpan};
use crate::backend::{GraphId, KernelId, StreamId};
use crate::streams::StreamTable;
use std::collections::HashMap;

/// Work that an engine is running.
pub(super) struct Running {
    pub stream: StreamId,
    pub sequence: u64,
    pub queued: QueuedWork,
    pub start_ns: u64,
    pub end_ns: u64,
}

pub(super) struct Device {
    pub profile: SimProfile,
    pub memory: SimMemory,
    pub faults: FaultPlan,
    pub kernels: HashMap<KernelId, SimKernel>,
    /// The kernel whose launches are delays.
    pub delay: Option<KernelId>,
    pub graphs: HashMap<GraphId, Graph>,
    /// Finished work, when it is recorded.
    pub timeline: Option<Vec<SimSpan>>,
    pub streams: StreamTable<QueuedWork>,
    /// What each engine runs now, by [`Engine`].
    pub engines: [Option<Running>; Engine::ALL.len()],
    /// Delays under way.
    pub delays: Vec<Running>,
    /// Simulation time: all completions up to here have been processed.
    pub now_ns: u64,
}

impl Device {
    pub fn new(profile: SimProfile, memory: SimMemory, record_timeline: bool) -> Self {
        Device {
            profile,
            memory,
            faults: FaultPlan::default(),
            kernels: HashMap::new(),
            delay: None,
            graphs: HashMap::new(),
            timeline: record_timeline.then(Vec::new),
            streams: StreamTable::new(),
            engines: [const { None }; Engine::ALL.len()],
            delays: Vec::new(),
            now_ns: 0,
        }
    }
}
