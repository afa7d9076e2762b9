//! A captured graph as a Python object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assay_runtime::backend::{DELAY_SLOT_BYTES, DevicePointer, Launch, StreamId};
use assay_runtime::dispatch::{self, Work, WorkRequest};
use pyo3::prelude::*;

use super::allocation::Use;
use super::buffer::Memory;
use super::buffer_range::BufferRange;
use super::capture::{self, Captured};
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::panic_guard::guarded;
use super::reentrancy::refuse_reentry;
use super::stream::PyStream;
use super::stream_operations::delay_launch;

/// One node: kind, label, captured stream, bytes, flops, and the operation of the table.
type NodeTuple = (&'static str, String, u32, u64, f64, Option<&'static str>);

/// The graph and the allocations it uses, which live as long as it can be replayed.
struct Live {
    graph: Arc<dispatch::Graph>,
    allocations: Vec<Captured>,
}

/// Captured work that can be replayed.
#[pyclass(name = "NativeGraph", module = "assay._native", frozen)]
pub(super) struct PyGraph {
    runtime: Arc<DeviceRuntime>,
    name: Arc<str>,
    live: Mutex<Option<Arc<Live>>>,
}

impl PyGraph {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Live>>> {
        // No code under the lock can panic midway.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, operation: &str) -> PyResult<Arc<Live>> {
        let live = self.lock().clone();
        live.ok_or_else(|| errors::freed(operation, "graph"))
    }

    /// Checks that the graph can run on the stream.
    fn check(&self, py: Python<'_>, operation: &str, stream: &PyStream) -> PyResult<Arc<Live>> {
        refuse_reentry(operation)?;
        capture::refuse(&self.runtime, operation, "a graph")?;
        stream.on(&self.runtime, operation)?;
        self.runtime.run_deferred(py);
        self.live(operation)
    }
}

#[pymethods]
impl PyGraph {
    /// End this thread's capture on a stream's device; `name` labels the graph in records.
    #[new]
    fn new(py: Python<'_>, stream: PyRef<'_, PyStream>, name: &str) -> PyResult<Self> {
        guarded("capture", || {
            let runtime = stream.runtime();
            let (graph, allocations) = py.detach(|| capture::end(runtime))?;
            Ok(PyGraph {
                runtime: Arc::clone(runtime),
                name: Arc::from(name),
                live: Mutex::new(Some(Arc::new(Live { graph: Arc::new(graph), allocations }))),
            })
        })
    }

    /// Queue the whole graph on a stream; on the CPU's default stream it runs synchronously.
    fn replay(&self, py: Python<'_>, stream: PyRef<'_, PyStream>) -> PyResult<()> {
        guarded("replay", || {
            let live = self.check(py, "replay", &stream)?;
            let id = stream.id;
            py.detach(|| {
                let work = Work::Graph(Arc::clone(&live.graph));
                let request = WorkRequest::new(Arc::clone(&self.name), id, work);
                let uses: Vec<Use<'_>> = live.allocations.iter().map(Captured::as_use).collect();
                self.runtime.submit(request, &uses).map(|_| ())
            })
        })
    }

    /// Run the nodes one by one, wait, and return when each began and ended.
    fn profile(&self, py: Python<'_>, stream: PyRef<'_, PyStream>) -> PyResult<Vec<(u64, u64)>> {
        guarded("profile", || {
            let live = self.check(py, "profile", &stream)?;
            let id = stream.id;
            py.detach(|| {
                for captured in &live.allocations {
                    captured.allocation.wait()?;
                }
                let dispatch = &self.runtime.dispatch;
                let spans = dispatch.replay_timed(&self.name, &live.graph, id);
                let spans = spans.map_err(|error| errors::dispatch(&error))?;
                let times = spans.iter().map(|span| (span.start_ns, span.end_ns));
                Ok(times.collect())
            })
        })
    }

    /// Capture the graph anew with a delay before some nodes, each given with its slot in `slots`.
    ///
    /// `streams` has one for each stream that the graph was captured on; they must outlive it.
    fn with_delays(
        &self,
        py: Python<'_>,
        streams: Vec<PyRef<'_, PyStream>>,
        nodes: Vec<(u32, u32)>,
        slots: PyRef<'_, Memory>,
    ) -> PyResult<PyGraph> {
        let operation = "with_delays";
        guarded(operation, || {
            let runtime = &self.runtime;
            runtime.begin(py, operation)?;
            capture::refuse(runtime, operation, "a graph")?;
            let live = self.live(operation)?;
            let streams = streams.iter().map(|stream| stream.on(runtime, operation));
            let streams: Vec<StreamId> = streams.collect::<PyResult<_>>()?;
            let slots = BufferRange::new(&slots, 0);
            let last = nodes.iter().map(|(_, slot)| u64::from(*slot) + 1).max();
            let bytes = DELAY_SLOT_BYTES * last.unwrap_or(0);
            // Exported from here on, so that its address stays.
            let kept = Captured::new(slots.buffer, true);
            let first = slots.device_address(runtime, operation, bytes)?;
            let before: BTreeMap<u32, Launch> = nodes
                .iter()
                .map(|(node, slot)| {
                    let address = first.0 + u64::from(*slot) * DELAY_SLOT_BYTES;
                    (*node, delay_launch(runtime, DevicePointer(address)))
                })
                .collect();
            let graph = py.detach(|| {
                let name = Arc::from("delay");
                runtime.dispatch.recapture(&live.graph, &streams, &name, &before)
            });
            let graph = graph.map_err(|error| errors::dispatch(&error))?;
            let used = live.allocations.iter();
            let mut allocations: Vec<Captured> =
                used.map(|used| Captured::new(&used.allocation, used.writes)).collect();
            allocations.push(kept);
            Ok(PyGraph {
                runtime: Arc::clone(runtime),
                name: Arc::clone(&self.name),
                live: Mutex::new(Some(Arc::new(Live { graph: Arc::new(graph), allocations }))),
            })
        })
    }

    /// For each captured node, the nodes of other streams that it comes after.
    fn dependencies(&self) -> PyResult<Vec<Vec<u32>>> {
        let live = self.live("dependencies")?;
        let nodes = live.graph.nodes().iter();
        Ok(nodes.map(|node| node.after.clone()).collect())
    }

    /// The captured nodes, in order.
    fn nodes(&self) -> PyResult<Vec<NodeTuple>> {
        let live = self.live("nodes")?;
        let nodes = live.graph.nodes().iter().zip(live.graph.works());
        let tuples = nodes.map(|(node, work)| {
            let (kind, label) = (node.kind.name(), node.name.to_string());
            let operation = self.runtime.operation_of(work);
            (kind, label, node.stream.0, node.bytes, node.flops, operation)
        });
        Ok(tuples.collect())
    }

    /// Its id in records.
    #[getter]
    fn number(&self) -> PyResult<u64> {
        Ok(self.live("number")?.graph.id().0)
    }

    /// Release the memory that it uses; replays already queued still run.
    fn close(&self, py: Python<'_>) {
        let live = self.lock().take();
        py.detach(|| drop(live));
    }
}
