//! The simulated device as a [`Backend`].

use super::SimBackend;
use super::delay;
use super::device::Device;
use super::fault::FaultMoment;
use super::work::{QueuedWork, Work};
use crate::backend::{
    Address, Backend, BackendError, DELAY_SLOT_BYTES, DevicePointer, DeviceProperties, EventId,
    GraphId, HostPointer, Launch, MemoryInfo, Operation, Result, Space, StreamId, StreamPriority,
};
use crate::clock::Clock;
use crate::streams::{Command, DEFAULT_STREAM};
use std::sync::{Arc, MutexGuard};

impl SimBackend {
    /// Begins a call: advances the clock by its host time, processes completions, injects faults.
    ///
    /// The flag is set if the work queued by this call has to fail on the device.
    fn begin(
        &self,
        operation: Operation,
        host_ns: impl FnOnce(&Device) -> u64,
    ) -> Result<(MutexGuard<'_, Device>, bool)> {
        let mut device = self.lock(operation)?;
        self.clock.advance_ns(host_ns(&device));
        device.advance_to(self.clock.now_ns());
        let Some(fault) = device.faults.count(operation) else {
            return Ok((device, false));
        };
        let fails_on_device =
            matches!(operation, Operation::Copy | Operation::Fill | Operation::Launch);
        if fault.moment == FaultMoment::OnDevice && fails_on_device {
            return Ok((device, true));
        }
        Err(BackendError::Injected { operation, occurrence: fault.occurrence })
    }

    fn begin_enqueue(&self, operation: Operation) -> Result<(MutexGuard<'_, Device>, bool)> {
        self.begin(operation, |device| device.profile.enqueue_ns)
    }

    fn begin_query(&self, operation: Operation) -> Result<MutexGuard<'_, Device>> {
        let (device, _) = self.begin(operation, |device| device.profile.query_ns)?;
        Ok(device)
    }

    fn allocate(&self, operation: Operation, space: Space, bytes: u64) -> Result<u64> {
        let (mut device, _) = self
            .begin(operation, |device| device.profile.memory(space).allocate_duration_ns(bytes))?;
        let capacity = device.profile.memory(space).capacity_bytes;
        device.memory.allocate(operation, space, bytes, capacity)
    }

    /// Frees after everything queued so far, as drivers do.
    fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let (mut device, _) =
            self.begin(operation, |device| device.profile.memory(address.space()).free_ns)?;
        device.memory.check(operation, address, 0)?;
        device.advance_until(|_| false);
        self.clock.advance_to_ns(device.now_ns);
        device.memory.free(operation, address)
    }

    fn enqueue_work(
        &self,
        mut device: MutexGuard<'_, Device>,
        stream: StreamId,
        work: Work,
        injected_failure: bool,
    ) -> Result<()> {
        let operation = work.operation();
        let queued = QueuedWork { work, injected_failure, node: None };
        if let Some(queued) = device.streams.capture_work(operation, stream, queued)? {
            device.streams.enqueue(stream, Command::Work(queued));
        }
        Ok(())
    }
}

impl Backend for SimBackend {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        let device = self.lock(Operation::AllocateDevice)?;
        let total_bytes = device.profile.device_memory.capacity_bytes;
        let used = device.memory.used_bytes(Space::Device);
        Ok(MemoryInfo { free_bytes: total_bytes.saturating_sub(used), total_bytes })
    }

    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        self.allocate(Operation::AllocateDevice, Space::Device, bytes).map(DevicePointer)
    }

    fn free_device(&self, pointer: DevicePointer) -> Result<()> {
        self.free(Operation::FreeDevice, pointer.into())
    }

    fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        self.allocate(Operation::AllocateHost, Space::Host, bytes).map(HostPointer)
    }

    fn free_host(&self, pointer: HostPointer) -> Result<()> {
        self.free(Operation::FreeHost, pointer.into())
    }

    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()> {
        let (mut device, _) = self.begin(Operation::ReadHost, |_| 0)?;
        if into.is_empty() {
            return Ok(());
        }
        device.memory.read(source.into(), into)
    }

    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()> {
        let (mut device, _) = self.begin(Operation::WriteHost, |_| 0)?;
        if bytes.is_empty() {
            return Ok(());
        }
        device.memory.write(destination.into(), bytes)
    }

    fn default_stream(&self) -> StreamId {
        DEFAULT_STREAM
    }

    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        let (mut device, _) = self.begin_enqueue(Operation::CreateStream)?;
        Ok(device.streams.create_stream(priority))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::DestroyStream)?;
        device.streams.destroy_stream(stream)
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        let mut device = self.begin_query(Operation::QueryStream)?;
        device.streams.query_stream(stream)
    }

    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        let mut device = self.begin_query(Operation::RecoverStream)?;
        let now_ns = device.now_ns;
        device.streams.recover(stream, now_ns)
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::SynchronizeStream;
        let mut device = self.begin_query(operation)?;
        device.streams.check_not_capturing(operation, stream)?;
        device.advance_until(|device| device.streams.is_stream_idle(stream));
        self.clock.advance_to_ns(device.now_ns);
        device.streams.stream_result(stream)
    }

    fn create_event(&self) -> Result<EventId> {
        let (mut device, _) = self.begin_enqueue(Operation::CreateEvent)?;
        Ok(device.streams.create_event())
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::DestroyEvent)?;
        device.streams.destroy_event(event)
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::RecordEvent)?;
        device.streams.record_event(event, stream).map(|_| ())
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::WaitEvent)?;
        device.streams.wait_event(stream, event).map(|_| ())
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        let device = self.begin_query(Operation::QueryEvent)?;
        device.streams.query_event(event)
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::SynchronizeEvent;
        let mut device = self.begin_query(operation)?;
        if let Some(ticket) = device.streams.pending_ticket(operation, event)? {
            device.advance_until(|device| !device.streams.is_pending(ticket));
            self.clock.advance_to_ns(device.now_ns);
        }
        device.streams.event_result(operation, event)
    }

    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        let device = self.begin_query(Operation::Elapsed)?;
        device.streams.elapsed_ns(first, last)
    }

    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Copy;
        let (mut device, injected_failure) = self.begin_enqueue(operation)?;
        device.streams.check_stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        device.memory.check(operation, source, bytes)?;
        device.memory.check(operation, destination, bytes)?;
        if source.space() == destination.space()
            && source.value().abs_diff(destination.value()) < bytes
        {
            return Err(BackendError::Overlap { source, destination, bytes });
        }
        let work = Work::Copy { source, destination, bytes };
        self.enqueue_work(device, stream, work, injected_failure)
    }

    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()> {
        let operation = Operation::Fill;
        let (mut device, injected_failure) = self.begin_enqueue(operation)?;
        device.streams.check_stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        device.memory.check(operation, destination, bytes)?;
        let work = Work::Fill { destination, value, bytes };
        self.enqueue_work(device, stream, work, injected_failure)
    }

    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        let (mut device, injected_failure) = self.begin_enqueue(Operation::Launch)?;
        device.streams.check_stream(Operation::Launch, stream)?;
        let kernel = launch.kernel;
        if device.delay == Some(kernel) {
            let slot = delay::slot_of(launch).ok_or_else(|| BackendError::ArgumentCount {
                kernel: "delay".to_owned(),
                expected: 1,
                got: launch.arguments.len(),
            })?;
            device.memory.check(Operation::Launch, slot.into(), DELAY_SLOT_BYTES)?;
            let work = Work::Delay { slot, kernel };
            return self.enqueue_work(device, stream, work, injected_failure);
        }
        let Some(found) = device.kernels.get(&kernel) else {
            return Err(BackendError::UnknownKernel { kernel });
        };
        if found.parameters != launch.arguments.len() {
            return Err(BackendError::ArgumentCount {
                kernel: found.name.clone(),
                expected: found.parameters,
                got: launch.arguments.len(),
            });
        }
        if launch.grid.contains(&0) || launch.block.contains(&0) {
            return Err(BackendError::EmptyLaunch {
                kernel: found.name.clone(),
                grid: launch.grid,
                block: launch.block,
            });
        }
        let work = Work::Launch(Arc::new(launch.clone()));
        self.enqueue_work(device, stream, work, injected_failure)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::BeginCapture)?;
        device.streams.begin_capture(stream)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        let (mut device, _) = self.begin_enqueue(Operation::EndCapture)?;
        device.end_capture(stream)
    }

    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        let mut device = self.begin_query(Operation::IsCapturing)?;
        device.streams.is_capturing(stream)
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::LaunchGraph)?;
        device.launch_graph(graph, stream)
    }

    fn destroy_graph(&self, graph: GraphId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::DestroyGraph)?;
        device.destroy_graph(graph)
    }
}
