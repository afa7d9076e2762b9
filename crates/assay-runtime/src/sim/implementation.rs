//! The simulated device as a [`Backend`].

use super::SimBackend;
use super::command::{Command, Work};
use super::device::{Device, Mark};
use super::fault::FaultMoment;
use crate::backend::{
    Address, Backend, BackendError, DevicePointer, DeviceProperties, EventId, GraphId, HostPointer,
    Launch, MemoryInfo, Operation, Result, Space, StreamId, StreamPriority,
};
use crate::clock::Clock;
use std::sync::{Arc, MutexGuard};

impl SimBackend {
    /// Begins a call: it takes host time, what happened meanwhile happens, a fault may end it.
    ///
    /// The flag says that the work queued by this call is to fail later on the device.
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
        let can_be_late = matches!(
            operation,
            Operation::Copy | Operation::Fill | Operation::Launch
        );
        if fault.moment == FaultMoment::OnDevice && can_be_late {
            return Ok((device, true));
        }
        Err(BackendError::Injected {
            operation,
            occurrence: fault.occurrence,
        })
    }

    fn begin_enqueue(&self, operation: Operation) -> Result<(MutexGuard<'_, Device>, bool)> {
        self.begin(operation, |device| device.profile.enqueue_ns)
    }

    fn begin_query(&self, operation: Operation) -> Result<MutexGuard<'_, Device>> {
        let (device, _) = self.begin(operation, |device| device.profile.query_ns)?;
        Ok(device)
    }

    fn allocate(&self, operation: Operation, space: Space, bytes: u64) -> Result<u64> {
        let (mut device, _) = self.begin(operation, |device| {
            device.profile.memory(space).allocate_duration_ns(bytes)
        })?;
        let capacity = device.profile.memory(space).capacity_bytes;
        device.memory.allocate(operation, space, bytes, capacity)
    }

    /// Frees after everything queued so far, as drivers do.
    fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let (mut device, _) = self.begin(operation, |device| {
            device.profile.memory(address.space()).free_ns
        })?;
        device.memory.check(operation, address, 0)?;
        device.advance_until(|_| false);
        self.clock.advance_to_ns(device.frontier_ns);
        device.memory.free(operation, address)
    }

    fn enqueue_work(
        &self,
        mut device: MutexGuard<'_, Device>,
        stream: StreamId,
        work: Work,
        fails: bool,
    ) -> Result<()> {
        if !device.capture_work(stream, &work)? {
            let node = None;
            device.enqueue(stream, Command::Work { work, fails, node });
        }
        Ok(())
    }

    fn mark(device: &Device, operation: Operation, event: EventId) -> Result<Mark> {
        let mark = device.events.get(&event).cloned();
        mark.ok_or(BackendError::UnknownEvent { operation, event })
    }

    /// Refuses calls that would wait for captured work, which does not run.
    fn outside_capture(device: &mut Device, operation: Operation, stream: StreamId) -> Result<()> {
        match device.stream(operation, stream)?.capture {
            Some(_) => Err(BackendError::Capturing { operation, stream }),
            None => Ok(()),
        }
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
        Ok(MemoryInfo {
            free_bytes: total_bytes.saturating_sub(used),
            total_bytes,
        })
    }

    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        self.allocate(Operation::AllocateDevice, Space::Device, bytes)
            .map(DevicePointer)
    }

    fn free_device(&self, pointer: DevicePointer) -> Result<()> {
        self.free(Operation::FreeDevice, pointer.into())
    }

    fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        self.allocate(Operation::AllocateHost, Space::Host, bytes)
            .map(HostPointer)
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
        self.default_stream
    }

    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        let (mut device, _) = self.begin_enqueue(Operation::CreateStream)?;
        Ok(device.create_stream(priority, false))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::DestroyStream;
        let (mut device, _) = self.begin_enqueue(operation)?;
        if stream == self.default_stream {
            return Err(BackendError::DefaultStream { stream });
        }
        Self::outside_capture(&mut device, operation, stream)?;
        device.close_stream(stream);
        Ok(())
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        let operation = Operation::QueryStream;
        let mut device = self.begin_query(operation)?;
        Self::outside_capture(&mut device, operation, stream)?;
        match device.failure(stream) {
            Some(failure) => Err(failure.into()),
            None => Ok(device.is_idle(stream)),
        }
    }

    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::RecoverStream;
        let mut device = self.begin_query(operation)?;
        Self::outside_capture(&mut device, operation, stream)?;
        device.recover(stream);
        Ok(())
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::SynchronizeStream;
        let mut device = self.begin_query(operation)?;
        Self::outside_capture(&mut device, operation, stream)?;
        device.advance_until(|device| device.is_idle(stream));
        self.clock.advance_to_ns(device.frontier_ns);
        match device.failure(stream) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn create_event(&self) -> Result<EventId> {
        let (mut device, _) = self.begin_enqueue(Operation::CreateEvent)?;
        let event = EventId(device.fresh_number());
        device.events.insert(event, Mark::Never);
        Ok(event)
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::DestroyEvent;
        let (mut device, _) = self.begin_enqueue(operation)?;
        let removed = device.events.remove(&event);
        removed
            .map(|_| ())
            .ok_or(BackendError::UnknownEvent { operation, event })
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let operation = Operation::RecordEvent;
        let (mut device, _) = self.begin_enqueue(operation)?;
        Self::mark(&device, operation, event)?;
        if device.capture_record(event, stream)? {
            return Ok(());
        }
        let ticket = device.fresh_ticket();
        device.events.insert(event, Mark::Pending { ticket });
        let event = Some(event);
        device.enqueue(stream, Command::Record { ticket, event });
        Ok(())
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let operation = Operation::WaitEvent;
        let (mut device, _) = self.begin_enqueue(operation)?;
        let mark = Self::mark(&device, operation, event)?;
        if let Mark::Captured { capture, local, .. } = mark {
            return device.capture_wait(stream, capture, local);
        }
        let captured = device.stream(operation, stream)?.capture.is_some();
        match mark {
            // A graph cannot depend on work outside it.
            Mark::Pending { .. } | Mark::Finished { .. } | Mark::Failed(_) if captured => {
                Err(BackendError::Capturing { operation, stream })
            }
            Mark::Pending { ticket } => {
                device.enqueue(stream, Command::Wait { ticket });
                Ok(())
            }
            Mark::Failed(failure) => Err(failure.into()),
            Mark::Never | Mark::Finished { .. } | Mark::Captured { .. } => Ok(()),
        }
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        let operation = Operation::QueryEvent;
        let device = self.begin_query(operation)?;
        match Self::mark(&device, operation, event)? {
            Mark::Never | Mark::Finished { .. } => Ok(true),
            Mark::Pending { .. } => Ok(false),
            Mark::Failed(failure) => Err(failure.into()),
            Mark::Captured { stream, .. } => Err(BackendError::Capturing { operation, stream }),
        }
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::SynchronizeEvent;
        let mut device = self.begin_query(operation)?;
        if let Mark::Pending { ticket } = Self::mark(&device, operation, event)? {
            device.advance_until(|device| !device.is_pending(ticket));
            self.clock.advance_to_ns(device.frontier_ns);
        }
        match Self::mark(&device, operation, event)? {
            Mark::Failed(failure) => Err(failure.into()),
            Mark::Captured { stream, .. } => Err(BackendError::Capturing { operation, stream }),
            Mark::Never | Mark::Pending { .. } | Mark::Finished { .. } => Ok(()),
        }
    }

    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        let operation = Operation::Elapsed;
        let device = self.begin_query(operation)?;
        let time = |event| match Self::mark(&device, operation, event)? {
            Mark::Finished { time_ns } => Ok(time_ns),
            _ => Err(BackendError::EventNotFinished { operation, event }),
        };
        Ok(time(last)?.saturating_sub(time(first)?))
    }

    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Copy;
        let (mut device, fails) = self.begin_enqueue(operation)?;
        device.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        device.memory.check(operation, source, bytes)?;
        device.memory.check(operation, destination, bytes)?;
        if source.space() == destination.space()
            && source.value().abs_diff(destination.value()) < bytes
        {
            return Err(BackendError::Overlap {
                source,
                destination,
                bytes,
            });
        }
        let work = Work::Copy {
            source,
            destination,
            bytes,
        };
        self.enqueue_work(device, stream, work, fails)
    }

    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()> {
        let operation = Operation::Fill;
        let (mut device, fails) = self.begin_enqueue(operation)?;
        device.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        device.memory.check(operation, destination, bytes)?;
        let work = Work::Fill {
            destination,
            value,
            bytes,
        };
        self.enqueue_work(device, stream, work, fails)
    }

    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        let (mut device, fails) = self.begin_enqueue(Operation::Launch)?;
        device.stream(Operation::Launch, stream)?;
        let kernel = launch.kernel;
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
        self.enqueue_work(device, stream, work, fails)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        let (mut device, _) = self.begin_enqueue(Operation::BeginCapture)?;
        device.begin_capture(stream)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        let (mut device, _) = self.begin_enqueue(Operation::EndCapture)?;
        device.end_capture(stream)
    }

    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        let operation = Operation::IsCapturing;
        let mut device = self.begin_query(operation)?;
        Ok(device.stream(operation, stream)?.capture.is_some())
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
