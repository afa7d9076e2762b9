//! The GPU as a [`Backend`].

use super::cuda_device::{Code, CudaDevice, Queue, normal};
use super::event::{Event, EventState};
use super::scratch::{Block, unshared};
use super::stream::Stream;
use super::sync::lock;
use assay_runtime::backend::{
    Address, Backend, BackendError, DevicePointer, DeviceProperties, EventId, GraphId, HostPointer,
    Launch, MemoryInfo, Operation, Result, StreamId, StreamPriority, Tracer,
};
use assay_runtime::clock::Clock;
use assay_runtime::trace::{LaunchKind, current_ticket};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl CudaDevice {
    /// Queues a fill of a checked range.
    pub(super) fn fill_on(
        &self,
        stream: &Stream,
        destination: Address,
        value: u8,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Fill;
        let driver = self.context.enter(operation)?;
        let to = destination.value();
        // SAFETY: the range is in a live allocation, which outlives the queued work; the device
        // addresses pinned memory as the host does.
        let status =
            unsafe { (driver.cuMemsetD8Async)(to, value, bytes as usize, stream.handle()) };
        stream.check(operation, status)
    }

    /// Queues a copy between checked ranges.
    pub(super) fn copy_on(
        &self,
        stream: &Stream,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Copy;
        let driver = self.context.enter(operation)?;
        let (from, to) = (source.value(), destination.value());
        // SAFETY: both ranges are in live allocations, which outlive the queued work; with unified
        // addressing the driver infers the direction.
        let status = unsafe { (driver.cuMemcpyAsync)(to, from, bytes as usize, stream.handle()) };
        stream.check(operation, status)
    }

    /// Lets go of scratch memory; what nobody else holds is freed behind the work of these streams.
    pub(super) fn free_unshared(
        &self,
        scratch: Vec<Arc<Block>>,
        streams: &[Arc<Stream>],
    ) -> Result<()> {
        let freed = unshared(scratch).map(|pointer| self.memory.free_device(pointer, streams));
        // One that fails does not keep the others.
        freed.fold(Ok(()), Result::and)
    }

    /// Blocks until the queued work of a stream has finished, also while it captures.
    fn finish_queued(&self, operation: Operation, stream: &Stream) -> Result<()> {
        // Captured work is not queued; `before` covers the work queued before the capture.
        let before = lock(&stream.capture)
            .as_ref()
            .map(|member| stream.synchronize_event(operation, &member.before, &self.watchdog));
        before.unwrap_or_else(|| stream.synchronize(operation, &self.watchdog))
    }

    /// An event recorded on a stream, finished or not.
    fn recorded(&self, operation: Operation, event: EventId) -> Result<Arc<Event>> {
        match self.state(operation, event)? {
            (found, EventState::Recorded(_)) => Ok(found),
            (_, EventState::Unrecorded | EventState::Captured(_)) => {
                Err(BackendError::EventNotFinished { operation, event })
            }
        }
    }
}

fn captured(operation: Operation, stream: &Stream) -> BackendError {
    BackendError::Capturing { operation, stream: stream.id }
}

impl Backend for CudaDevice {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        self.memory.info(Operation::AllocateDevice)
    }

    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        self.memory.allocate_device(bytes)
    }

    fn free_device(&self, pointer: DevicePointer) -> Result<()> {
        self.memory.free_device(pointer, &self.all_streams())
    }

    fn release_freed(&self) -> Result<()> {
        self.memory.release_freed(Operation::FreeDevice)
    }

    fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        self.memory.allocate_host(bytes)
    }

    fn free_host(&self, pointer: HostPointer) -> Result<()> {
        let operation = Operation::FreeHost;
        self.memory.check_host_start(pointer)?;
        for stream in self.all_streams() {
            self.finish_queued(operation, &stream)?;
        }
        self.memory.free_host(pointer)
    }

    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let bytes = into.len() as u64;
        self.memory.check_range(Operation::ReadHost, source.into(), bytes)?;
        let from = ptr::with_exposed_provenance::<u8>(source.0 as usize);
        // SAFETY: the range is in a live allocation, and `into` is borrowed for writing.
        unsafe { ptr::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len() as u64;
        self.memory.check_range(Operation::WriteHost, destination.into(), length)?;
        let to = ptr::with_exposed_provenance_mut::<u8>(destination.0 as usize);
        // SAFETY: the range is in a live allocation.
        unsafe { ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn default_stream(&self) -> StreamId {
        self.default_stream.id
    }

    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        let (least, most) = self.priorities;
        let priority = match priority {
            StreamPriority::Low => least,
            StreamPriority::Normal => normal(least, most),
            StreamPriority::High => most,
        };
        let id = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed));
        let stream = Arc::new(Stream::new(&self.context, id, priority)?);
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        streams.insert(id, stream);
        Ok(id)
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::DestroyStream;
        if stream == self.default_stream.id {
            return Err(BackendError::DefaultStream { stream });
        }
        let found = self.stream(operation, stream)?;
        found.outside_capture(operation)?;
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if streams.remove(&stream).is_none() {
            return Err(BackendError::UnknownStream { operation, stream });
        }
        drop(streams);
        // Later frees cannot wait for this stream any more, so order them behind it now.
        self.memory.free_after(&found)?;
        let scratch = lock(&found.scratch).take();
        self.free_unshared(scratch, &[])
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        let operation = Operation::QueryStream;
        let stream = self.stream(operation, stream)?;
        stream.outside_capture(operation)?;
        stream.query(operation)
    }

    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::RecoverStream;
        self.stream(operation, stream)?;
        // Work only fails by a device fault, and a fault ends the context.
        self.context.enter(operation).map(|_| ())
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::SynchronizeStream;
        let stream = self.stream(operation, stream)?;
        stream.outside_capture(operation)?;
        stream.synchronize(operation, &self.watchdog)
    }

    fn create_event(&self) -> Result<EventId> {
        let event = Arc::new(Event::new(&self.context)?);
        let id = EventId(self.fresh_number());
        let mut events = self.events.write().unwrap_or_else(PoisonError::into_inner);
        events.insert(id, event);
        Ok(id)
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::DestroyEvent;
        let mut events = self.events.write().unwrap_or_else(PoisonError::into_inner);
        let removed = events.remove(&event);
        drop(events);
        removed.map(|_| ()).ok_or(BackendError::UnknownEvent { operation, event })
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let operation = Operation::RecordEvent;
        let event = self.event(operation, event)?;
        let stream = self.stream(operation, stream)?;
        self.record(&event, &stream)
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let operation = Operation::WaitEvent;
        let (event, state) = self.state(operation, event)?;
        let stream = self.stream(operation, stream)?;
        match state {
            EventState::Unrecorded => Ok(()),
            EventState::Captured(state) => self.join_capture(&stream, &event, &state),
            EventState::Recorded(_) => {
                // A graph cannot depend on work outside it.
                stream.outside_capture(operation)?;
                stream.wait(operation, &event.driver)
            }
        }
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        let operation = Operation::QueryEvent;
        match self.state(operation, event)? {
            (_, EventState::Unrecorded) => Ok(true),
            (_, EventState::Captured(state)) => Err(captured(operation, &state.stream)),
            (event, EventState::Recorded(stream)) => stream.query_event(operation, &event.driver),
        }
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::SynchronizeEvent;
        match self.state(operation, event)? {
            (_, EventState::Unrecorded) => Ok(()),
            (_, EventState::Captured(state)) => Err(captured(operation, &state.stream)),
            (event, EventState::Recorded(stream)) => {
                stream.synchronize_event(operation, &event.driver, &self.watchdog)
            }
        }
    }

    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        let operation = Operation::Elapsed;
        let (start, end) = (self.recorded(operation, first)?, self.recorded(operation, last)?);
        if let Some(elapsed) = end.driver.elapsed_ns(&start.driver)? {
            return Ok(elapsed);
        }
        // One of them is pending: the first if it is, else the last.
        let event = match self.query_event(first)? {
            true => last,
            false => first,
        };
        Err(BackendError::EventNotFinished { operation, event })
    }

    fn copy(
        &self,
        stream: StreamId,
        source: Address,
        destination: Address,
        bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Copy;
        let stream = self.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.memory.check_range(operation, source, bytes)?;
        self.memory.check_range(operation, destination, bytes)?;
        if source.value().abs_diff(destination.value()) < bytes {
            return Err(BackendError::Overlap { source, destination, bytes });
        }
        self.copy_on(&stream, source, destination, bytes)?;
        self.trace_unstamped(&stream, LaunchKind::Copy, "memcpy")?;
        self.note_captured(&stream);
        Ok(())
    }

    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()> {
        let operation = Operation::Fill;
        let stream = self.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.memory.check_range(operation, destination, bytes)?;
        self.fill_on(&stream, destination, value, bytes)?;
        self.trace_unstamped(&stream, LaunchKind::Fill, "memset")?;
        self.note_captured(&stream);
        Ok(())
    }

    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        let found;
        let stream = if stream == self.default_stream.id {
            &self.default_stream
        } else {
            found = self.stream(Operation::Launch, stream)?;
            &found
        };
        match &*self.code(launch.kernel)? {
            Code::Function(function) => {
                function.launch(stream, launch.into(), &launch.arguments)?;
                self.trace_unstamped(stream, LaunchKind::Kernel, &function.name)?;
            }
            Code::Operation { name, parameters, body } => {
                if launch.arguments.len() != *parameters {
                    return Err(BackendError::ArgumentCount {
                        kernel: name.clone(),
                        expected: *parameters,
                        got: launch.arguments.len(),
                    });
                }
                let queue = Queue { device: self, stream };
                body(&queue, launch)?;
            }
        }
        self.note_captured(stream);
        Ok(())
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        let stream = self.stream(Operation::BeginCapture, stream)?;
        self.capture_begin(&stream)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        let stream = self.stream(Operation::EndCapture, stream)?;
        self.capture_end(&stream)
    }

    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        let stream = self.stream(Operation::IsCapturing, stream)?;
        let captured = lock(&stream.capture).is_some();
        Ok(captured)
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        let operation = Operation::LaunchGraph;
        let stream = self.stream(operation, stream)?;
        stream.outside_capture(operation)?;
        let found = self.graphs().get(&graph).cloned();
        let found = found.ok_or(BackendError::UnknownGraph { operation, graph })?;
        if let Some((region, _)) = found.region {
            self.trace_replay(region, current_ticket())?;
        }
        found.launch(&stream)
    }

    fn destroy_graph(&self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let removed = self.graphs().remove(&graph);
        let Some(found) = removed else {
            return Err(BackendError::UnknownGraph { operation, graph });
        };
        // The driver does not specify what happens to running launches, so wait for them. Where that
        // fails, memory is freed behind them: also blocks that the capture stream still has, which
        // it later frees behind its own work alone.
        let mut done = Ok(());
        for stream in std::mem::take(&mut *lock(&found.launched_on)) {
            done = done.and(self.finish_queued(operation, &stream));
            self.memory.free_after(&stream)?;
        }
        let scratch = std::mem::take(&mut *lock(&found.scratch));
        let freed = self.free_unshared(scratch, &[]);
        let slots = found.region.map_or(Ok(()), |(_, slots)| self.memory.free_device(slots, &[]));
        done.and(freed).and(slots)
    }

    fn tracer(&self) -> Option<&dyn Tracer> {
        Some(self)
    }
}
