//! The processor as a [`Backend`].

use super::kernel::KernelCall;
use super::queue::{Command, Mark, State, Work};
use super::{CpuDevice, DEFAULT_STREAM};
use assay_runtime::backend::{
    Address, Backend, BackendError, DevicePointer, DeviceProperties, EventId, GraphId, HostPointer,
    Launch, MemoryInfo, Operation, Result, Space, StreamId, StreamPriority,
};
use assay_runtime::clock::Clock;
use std::sync::Arc;

impl CpuDevice {
    /// Frees after everything queued so far, as drivers do.
    fn free(&self, operation: Operation, address: Address) -> Result<()> {
        let memory = &self.shared.memory;
        memory.check_start(operation, address)?;
        // Held over the free, so that nothing is queued on the memory meanwhile.
        let _state = self.shared.run_until(self.shared.lock(), State::is_idle);
        memory.free(operation, address)
    }
}

fn mark(state: &State, operation: Operation, event: EventId) -> Result<&Mark> {
    let found = state.events.get(&event);
    found.ok_or(BackendError::UnknownEvent { operation, event })
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
        Ok(MemoryInfo {
            free_bytes: total_bytes.saturating_sub(memory.used_bytes()),
            total_bytes,
        })
    }

    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        let operation = Operation::AllocateDevice;
        let address = self
            .shared
            .memory
            .allocate(operation, Space::Device, bytes)?;
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
        // SAFETY: the range lies in a live allocation, and `into` is borrowed for writing.
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
        // SAFETY: the range lies in a live allocation.
        unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn default_stream(&self) -> StreamId {
        DEFAULT_STREAM
    }

    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        self.start_worker()?;
        Ok(self.shared.lock().create_stream(priority))
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        if stream == DEFAULT_STREAM {
            return Err(BackendError::DefaultStream { stream });
        }
        let mut state = self.shared.lock();
        state.outside_capture(Operation::DestroyStream, stream)?;
        state.close_stream(stream);
        Ok(())
    }

    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        let operation = Operation::QueryStream;
        let mut state = self.shared.lock();
        state.outside_capture(operation, stream)?;
        let found = state.stream(operation, stream)?;
        match found.failure.clone() {
            Some(failure) => Err(failure.into()),
            None => Ok(found.is_idle()),
        }
    }

    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::RecoverStream;
        let mut state = self.shared.lock();
        state.outside_capture(operation, stream)?;
        state.recover(stream, self.shared.clock.now_ns());
        self.shared.wake(&state);
        Ok(())
    }

    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        let operation = Operation::SynchronizeStream;
        let mut state = self.shared.lock();
        state.outside_capture(operation, stream)?;
        let state = self
            .shared
            .run_until(state, |state| state.is_stream_idle(stream));
        let failure = state
            .streams
            .get(&stream)
            .and_then(|found| found.failure.clone());
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn create_event(&self) -> Result<EventId> {
        let mut state = self.shared.lock();
        let event = EventId(state.fresh_number());
        state.events.insert(event, Mark::Never);
        Ok(event)
    }

    fn destroy_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::DestroyEvent;
        let removed = self.shared.lock().events.remove(&event);
        removed
            .map(|_| ())
            .ok_or(BackendError::UnknownEvent { operation, event })
    }

    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        let operation = Operation::RecordEvent;
        let mut state = self.shared.lock();
        mark(&state, operation, event)?;
        if state.capture_record(event, stream)? {
            return Ok(());
        }
        state.record(event, stream);
        self.shared.progress(state, stream);
        Ok(())
    }

    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        let operation = Operation::WaitEvent;
        let mut state = self.shared.lock();
        let mark = mark(&state, operation, event)?.clone();
        if let Mark::Captured { capture, seen, .. } = &mark {
            return state.capture_wait(stream, *capture, seen);
        }
        let captured = state.stream(operation, stream)?.capture.is_some();
        match mark {
            // A graph cannot depend on work outside it.
            Mark::Pending { .. } | Mark::Finished { .. } | Mark::Failed(_) if captured => {
                Err(BackendError::Capturing { operation, stream })
            }
            Mark::Pending { ticket } => {
                state.enqueue(stream, Command::Wait { ticket });
                self.shared.progress(state, stream);
                Ok(())
            }
            Mark::Failed(failure) => Err(failure.into()),
            Mark::Never | Mark::Finished { .. } | Mark::Captured { .. } => Ok(()),
        }
    }

    fn query_event(&self, event: EventId) -> Result<bool> {
        let operation = Operation::QueryEvent;
        let state = self.shared.lock();
        match mark(&state, operation, event)? {
            Mark::Never | Mark::Finished { .. } => Ok(true),
            Mark::Pending { .. } => Ok(false),
            Mark::Failed(failure) => Err(failure.clone().into()),
            Mark::Captured { stream, .. } => Err(BackendError::Capturing {
                operation,
                stream: *stream,
            }),
        }
    }

    fn synchronize_event(&self, event: EventId) -> Result<()> {
        let operation = Operation::SynchronizeEvent;
        let mut state = self.shared.lock();
        if let Mark::Pending { ticket } = *mark(&state, operation, event)? {
            state = self
                .shared
                .run_until(state, |state| !state.is_pending(ticket));
        }
        match mark(&state, operation, event)? {
            Mark::Failed(failure) => Err(failure.clone().into()),
            Mark::Captured { stream, .. } => Err(BackendError::Capturing {
                operation,
                stream: *stream,
            }),
            Mark::Never | Mark::Pending { .. } | Mark::Finished { .. } => Ok(()),
        }
    }

    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        let operation = Operation::Elapsed;
        let state = self.shared.lock();
        let time = |event| match mark(&state, operation, event)? {
            Mark::Finished { time_ns } => Ok(*time_ns),
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
        let mut state = self.shared.lock();
        state.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.shared.memory.pointer(operation, source, bytes)?;
        self.shared.memory.pointer(operation, destination, bytes)?;
        if source.value().abs_diff(destination.value()) < bytes {
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
        self.shared.submit(state, stream, work)
    }

    fn fill(&self, stream: StreamId, destination: Address, value: u8, bytes: u64) -> Result<()> {
        let operation = Operation::Fill;
        let mut state = self.shared.lock();
        state.stream(operation, stream)?;
        if bytes == 0 {
            return Ok(());
        }
        self.shared.memory.pointer(operation, destination, bytes)?;
        let work = Work::Fill {
            destination,
            value,
            bytes,
        };
        self.shared.submit(state, stream, work)
    }

    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        let operation = Operation::Launch;
        self.shared.lock().stream(operation, stream)?;
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
            check(&KernelCall {
                launch,
                memory: &self.shared.memory,
            })?;
        }
        let work = Work::Launch(Arc::new(launch.clone()));
        self.shared.submit(self.shared.lock(), stream, work)
    }

    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        self.shared.lock().begin_capture(stream)
    }

    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        self.shared.lock().end_capture(stream)
    }

    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        let mut state = self.shared.lock();
        let found = state.stream(Operation::IsCapturing, stream)?;
        Ok(found.capture.is_some())
    }

    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        let operation = Operation::LaunchGraph;
        let mut state = self.shared.lock();
        state.outside_capture(operation, stream)?;
        let works = state.graphs.get(&graph).cloned();
        let works = works.ok_or(BackendError::UnknownGraph { operation, graph })?;
        self.shared.submit(state, stream, Work::Graph(works))
    }

    fn destroy_graph(&self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let removed = self.shared.lock().graphs.remove(&graph);
        removed
            .map(|_| ())
            .ok_or(BackendError::UnknownGraph { operation, graph })
    }
}
