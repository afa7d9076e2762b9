//! The CPU as a [`Backend`].

use super::cpu_device::CpuDevice;
use super::kernel::KernelCall;
use super::state::Work;
use assay_runtime::backend::{
    Address, Backend, BackendError, DevicePointer, DeviceProperties, EventId, GraphId, HostPointer,
    Launch, MemoryInfo, Operation, Result, Space, StreamId, StreamPriority, Tracer,
};
use assay_runtime::clock::Clock;
use assay_runtime::streams::DEFAULT_STREAM;
use assay_runtime::trace::DeviceSpans;
use std::sync::Arc;

impl CpuDevice {
    /// Waits for all queued work, then frees, as drivers do.
    fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let memory = &self.shared.memory;
        memory.check_start(operation, address)?;
        // Locked during the free, so that no new work can use the memory.
        let _state = self.shared.run_until(self.shared.lock(), |state| state.streams.is_idle());
        memory.free(operation, address)
    }
}

impl Backend for CpuDevice {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn clock(&self) -> &dyn Clock {
        &self.shared.clock
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        let memory = &self.shared.memory;
        let total_bytes = memory.total_bytes();
        Ok(MemoryInfo { free_bytes: total_bytes.saturating_sub(memory.used_bytes()), total_bytes })
    }

    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        let operation = Operation::AllocateDevice;
        let address = self.shared.memory.allocate(operation, Space::Device, bytes)?;
        Ok(DevicePointer(address))
    }

    fn free_device(&self, pointer: DevicePointer) -> Result<()> {
        self.free(Operation::FreeDevice, pointer.into())
    }

    fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        let operation = Operation::AllocateHost;
        let address = self.shared.memory.allocate(operation, Space::Host, bytes)?;
        Ok(HostPointer(address))
    }

    fn free_host(&self, pointer: HostPointer) -> Result<()> {
        self.free(Operation::FreeHost, pointer.into())
    }

    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let bytes = into.len() as u64;
        let memory = &self.shared.memory;
        let from = memory.pointer(Operation::ReadHost, source.into(), bytes)?;
        // SAFETY: the range is in a live allocation, and `into` is borrowed for writing.
        unsafe { std::ptr::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let memory = &self.shared.memory;
        let length = bytes.len() as u64;
        let to = memory.pointer(Operation::WriteHost, destination.into(), length)?;
        // SAFETY: the range is in a live allocation.
        unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn default_stream(&self) -> StreamId {
        DEFAULT_STREAM
    }

    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        self.start_worker()?;
        Ok(self.shared.lock().streams.create_stream(priority))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.shared.lock().streams.destroy_stream(stream)
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.shared.lock().streams.query_stream(stream)
    }

    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        let mut state = self.shared.lock();
        let now_ns = self.shared.clock.now_ns();
        state.streams.recover(stream, now_ns)?;
        state.streams.settle(now_ns);
        self.shared.wake(&state);
        Ok(())
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::SynchronizeStream;
        let mut state = self.shared.lock();
        state.streams.check_not_capturing(operation, stream)?;
        let state = self.shared.run_until(state, |state| state.streams.is_stream_idle(stream));
        state.streams.stream_result(stream)
    }

    fn create_event(&self) -> Result<EventId> {
        Ok(self.shared.lock().streams.create_event())
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.shared.lock().streams.destroy_event(event)
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let mut state = self.shared.lock();
        if state.streams.record_event(event, stream)? {
            self.shared.progress(state, stream);
        }
        Ok(())
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let mut state = self.shared.lock();
        if state.streams.wait_event(stream, event)? {
            self.shared.progress(state, stream);
        }
        Ok(())
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        self.shared.lock().streams.query_event(event)
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::SynchronizeEvent;
        let mut state = self.shared.lock();
        if let Some(ticket) = state.streams.pending_ticket(operation, event)? {
            state = self.shared.run_until(state, |state| !state.streams.is_pending(ticket));
        }
        state.streams.event_result(operation, event)
    }

    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        self.shared.lock().streams.elapsed_ns(first, last)
    }

    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Copy;
        let mut state = self.shared.lock();
        state.streams.check_stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.shared.memory.pointer(operation, source, bytes)?;
        self.shared.memory.pointer(operation, destination, bytes)?;
        if source.value().abs_diff(destination.value()) < bytes {
            return Err(BackendError::Overlap { source, destination, bytes });
        }
        let work = Work::Copy { source, destination, bytes };
        self.shared.submit(state, stream, work)
    }

    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()> {
        let operation = Operation::Fill;
        let mut state = self.shared.lock();
        state.streams.check_stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.shared.memory.pointer(operation, destination, bytes)?;
        let work = Work::Fill { destination, value, bytes };
        self.shared.submit(state, stream, work)
    }

    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        let operation = Operation::Launch;
        let mut state = self.shared.lock();
        state.streams.check_stream(operation, stream)?;
        drop(state);
        let kernel = self.shared.kernel(launch.kernel)?;
        if kernel.parameters != launch.arguments.len() {
            return Err(BackendError::ArgumentCount {
                kernel: kernel.name.clone(),
                expected: kernel.parameters,
                got: launch.arguments.len(),
            });
        }
        if launch.grid.contains(&0) || launch.block.contains(&0) {
            return Err(BackendError::EmptyLaunch {
                kernel: kernel.name.clone(),
                grid: launch.grid,
                block: launch.block,
            });
        }
        if let Some(check) = &kernel.check {
            check(&KernelCall { launch, memory: &self.shared.memory })?;
        }
        let work = Work::Launch(Arc::new(launch.clone()));
        self.shared.submit(self.shared.lock(), stream, work)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        self.shared.lock().streams.begin_capture(stream)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        let (graph, branches) = self.shared.lock().end_capture(stream)?;
        if branches > 1 {
            self.ensure_workers(branches)?;
        }
        Ok(graph)
    }

    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        self.shared.lock().streams.is_capturing(stream)
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        let mut state = self.shared.lock();
        let operation = Operation::LaunchGraph;
        state.streams.check_not_capturing(operation, stream)?;
        let stored = state.graph(graph)?;
        match stored.branch_streams.is_empty() {
            true => self.shared.submit(state, stream, Work::Graph(stored.graph)),
            false => self.shared.submit_branches(state, stream, &stored),
        }
    }

    fn destroy_graph(&self, graph: GraphId) -> Result<()> {
        self.shared.lock().destroy_graph(graph)
    }

    fn tracer(&self) -> Option<&dyn Tracer> {
        Some(self)
    }
}

impl Tracer for CpuDevice {
    fn start(&self, capacity: usize) -> Result<()> {
        self.shared.trace.start(capacity);
        Ok(())
    }

    fn stop(&self) -> Result<DeviceSpans> {
        drop(self.shared.run_until(self.shared.lock(), |state| state.streams.is_idle()));
        Ok(self.shared.trace.stop())
    }
}
