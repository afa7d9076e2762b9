//! The work of one device while a trace was captured.

use std::collections::HashMap;
use std::sync::Arc;

use assay_operations::TABLE;
use assay_runtime::backend::KernelId;
use assay_runtime::dispatch::{GraphNode, TracedWork, WorkTrace};
use assay_runtime::trace::{DeviceSpans, LaunchInfo, WorkSpans};
use pyo3::prelude::*;

use super::super::device_runtime::DeviceRuntime;

/// Label of the work, operation of the table, and name of the kernel.
pub(super) type Name = (String, Option<&'static str>, Option<String>);

/// The work of one device while a trace was captured, and when each launch of it ran.
#[pyclass(name = "WorkTrace", module = "assay._native", frozen)]
pub(in super::super) struct PyWorkTrace {
    pub(super) runtime: Arc<DeviceRuntime>,
    pub(super) trace: WorkTrace,
    /// The distinct names of launches.
    pub(super) names: Vec<Name>,
    /// For each work with times: its index in `trace.works`, and the first of its names in `numbers`.
    pub(super) joined: Vec<JoinedWork>,
    pub(super) numbers: Vec<usize>,
}

/// A piece of work and its times.
pub(super) struct JoinedWork {
    /// The index in the works that were queued.
    pub work: usize,
    /// The index in the works that ran.
    pub spans: usize,
    /// The index of the name of its first launch.
    pub first_name: usize,
}

impl PyWorkTrace {
    pub fn new(runtime: &Arc<DeviceRuntime>, trace: WorkTrace) -> Self {
        let mut built = PyWorkTrace {
            runtime: Arc::clone(runtime),
            names: Vec::new(),
            joined: Vec::new(),
            numbers: Vec::new(),
            trace,
        };
        built.join();
        built
    }

    /// Joins what was queued with what ran, and numbers the names of launches, once for each graph.
    fn join(&mut self) {
        let mut by_ticket: HashMap<u64, usize> = HashMap::new();
        for (index, work) in self.trace.works.iter().enumerate() {
            by_ticket.insert(work.ticket, index);
        }
        let mut known: HashMap<Name, usize> = HashMap::new();
        let mut graphs: HashMap<(u64, *const LaunchInfo), usize> = HashMap::new();
        for (index, spans) in self.trace.device.works.iter().enumerate() {
            let Some(&queued) = by_ticket.get(&spans.ticket) else {
                continue;
            };
            let work = &self.trace.works[queued];
            let launches = spans.launches.as_ref().map_or(std::ptr::null(), |one| one.as_ptr());
            let key = work.graph.as_ref().map(|(graph, _)| (graph.0, launches));
            let first_name = match key.and_then(|key| graphs.get(&key).copied()) {
                Some(first) => first,
                None => {
                    let first = self.numbers.len();
                    for launch in 0..spans.count {
                        let name = launch_name(&self.runtime, work, spans, launch);
                        let next = known.len();
                        let number = *known.entry(name.clone()).or_insert(next);
                        if number == next {
                            self.names.push(name);
                        }
                        self.numbers.push(number);
                    }
                    if let Some(key) = key {
                        graphs.insert(key, first);
                    }
                    first
                }
            };
            self.joined.push(JoinedWork { work: queued, spans: index, first_name });
        }
    }

    pub(super) fn device(&self) -> &DeviceSpans {
        &self.trace.device
    }
}

/// The node of a launch, where the work is a graph.
pub(super) fn node_of<'a>(
    work: &'a TracedWork,
    spans: &WorkSpans,
    launch: usize,
) -> Option<&'a GraphNode> {
    let (_, nodes) = work.graph.as_ref()?;
    let node = match &spans.launches {
        Some(launches) => launches.get(launch)?.node as usize,
        None => launch,
    };
    nodes.get(node)
}

fn launch_name(
    runtime: &DeviceRuntime,
    work: &TracedWork,
    spans: &WorkSpans,
    launch: usize,
) -> Name {
    let node = node_of(work, spans, launch);
    let label = node.map_or(&work.name, |node| &node.name);
    let kernel = node.map_or(work.kernel, |node| node.kernel);
    let launches = spans.launches.as_ref();
    let info = launches.and_then(|launches| launches.get(launch));
    (
        label.to_string(),
        kernel.and_then(|kernel| operation_name(runtime, kernel)),
        info.map(|info| info.name.to_string()),
    )
}

fn operation_name(runtime: &DeviceRuntime, kernel: KernelId) -> Option<&'static str> {
    let mut kernels = runtime.operations.iter();
    let index = kernels.position(|known| *known == kernel)?;
    TABLE.get(index).map(|signature| signature.name)
}

#[pymethods]
impl PyWorkTrace {
    /// The distinct names of launches: label, operation of the table, kernel.
    fn names(&self) -> Vec<Name> {
        self.names.clone()
    }

    /// How many pieces of work were queued, have times, and have none.
    fn counts(&self) -> (usize, usize, usize) {
        let queued = self.trace.works.len();
        (queued, self.joined.len(), queued - self.joined.len().min(queued))
    }

    /// Launches that were not kept, for want of room.
    #[getter]
    fn dropped(&self) -> u64 {
        self.trace.device.dropped
    }

    /// How far the device's clock may be off the host's, in nanoseconds.
    #[getter]
    fn clock_error_ns(&self) -> u64 {
        self.trace.device.clock_error_ns
    }

    /// The resolution of the device's clock, in nanoseconds.
    #[getter]
    fn resolution_ns(&self) -> u64 {
        self.trace.device.resolution_ns
    }
}
