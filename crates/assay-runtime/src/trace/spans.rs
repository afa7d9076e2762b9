//! When launches ran.

use std::sync::Arc;

/// What a launch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchKind {
    /// Runs a kernel.
    Kernel,
    /// Copies memory.
    Copy,
    /// Fills memory.
    Fill,
}

/// A launch as the device sees it: one node of the driver's graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchInfo {
    /// The node of the dispatched graph that it belongs to; 0 outside of a graph.
    pub node: u32,
    /// What it does.
    pub kind: LaunchKind,
    /// The kernel's name.
    pub name: Arc<str>,
    /// CTAs along x, y and z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a CTA along x, y and z.
    pub block: Option<[u32; 3]>,
}

/// When a launch ran, on the backend's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaunchSpan {
    /// Its start, or a time before which it did not start.
    pub start_ns: u64,
    /// Its end, or a time after which it did not end.
    pub end_ns: u64,
    /// The start is a bound: the end of what ran before it.
    pub start_is_bound: bool,
    /// The end is a bound: the start of what ran after it.
    pub end_is_bound: bool,
}

/// The launches of one piece of work.
#[derive(Clone, Debug)]
pub struct WorkSpans {
    /// The work.
    pub ticket: u64,
    /// The index of its first launch in [`DeviceSpans::spans`].
    pub first: usize,
    /// How many it has.
    pub count: usize,
    /// What they are; none where each node is one launch.
    pub launches: Option<Arc<[LaunchInfo]>>,
}

/// What a device kept while a trace was captured.
#[derive(Clone, Debug, Default)]
pub struct DeviceSpans {
    /// The work, in the order in which it finished.
    pub works: Vec<WorkSpans>,
    /// The launches of all of it.
    pub spans: Vec<LaunchSpan>,
    /// Launches that were not kept, for want of room.
    pub dropped: u64,
    /// How far the device's clock may be off the backend's.
    pub clock_error_ns: u64,
    /// The resolution of the device's clock.
    pub resolution_ns: u64,
}

impl DeviceSpans {
    /// The launches of a piece of work.
    pub fn of(&self, work: &WorkSpans) -> &[LaunchSpan] {
        let end = work.first.saturating_add(work.count);
        self.spans.get(work.first..end).unwrap_or_default()
    }
}
