//! Replays an allocation log against any resource on a simulated device.
//!
//! Deterministic: the same log, resource and device profile give the same report.

use super::allocation_log::{Action, AllocationLog, Record};
use super::resource::{Allocation, MemoryResource, Request, Result};
use crate::backend::{Backend, Operation, StreamId, StreamPriority};
use crate::sim::{Contents, SimBackend, SimOptions, SimProfile};
use std::collections::HashMap;
use std::sync::Arc;

/// Options of a replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayOptions {
    /// The simulated device.
    pub profile: SimProfile,
    /// Queue a fill of each allocation before its free, so that streams have work to order.
    pub touch: bool,
}

/// The outcome of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplayReport {
    /// Requests that succeeded.
    pub allocations: u64,
    /// Requests that failed.
    pub refusals: u64,
    /// Allocations freed.
    pub frees: u64,
    /// Frees in the log of allocations that failed in this replay.
    pub skipped_frees: u64,
    /// High-water mark of requested bytes.
    pub peak_requested_bytes: u64,
    /// High-water mark of allocated bytes, rounding included.
    pub peak_allocated_bytes: u64,
    /// High-water mark of bytes held from the device.
    pub peak_held_bytes: u64,
    /// Allocation calls to the device, host memory included.
    pub device_allocations: u64,
    /// Free calls to the device, host memory included.
    pub device_frees: u64,
    /// Events recorded to order streams.
    pub recorded_events: u64,
    /// Waits of one stream for another.
    pub stream_waits: u64,
    /// Virtual time of the replay, until all queued work has finished.
    pub elapsed_ns: u64,
}

struct Replay<'a> {
    device: Arc<SimBackend>,
    resource: Arc<dyn MemoryResource>,
    options: &'a ReplayOptions,
    streams: HashMap<StreamId, StreamId>,
    live: HashMap<u64, Allocation>,
    requested_bytes: u64,
    report: ReplayReport,
}

/// Replays a log against the resource that `policy` makes over a fresh simulated device.
pub fn replay(
    log: &AllocationLog,
    options: &ReplayOptions,
    policy: impl FnOnce(Arc<dyn Backend>) -> Result<Arc<dyn MemoryResource>>,
) -> Result<ReplayReport> {
    let device = Arc::new(SimBackend::new(SimOptions {
        profile: options.profile.clone(),
        contents: Contents::Dropped,
        ..SimOptions::default()
    })?);
    let resource = policy(device.clone())?;
    let mut replay = Replay {
        device,
        resource,
        options,
        streams: HashMap::new(),
        live: HashMap::new(),
        requested_bytes: 0,
        report: ReplayReport::default(),
    };
    let start_ns = log.records.first().map_or(0, |record| record.time_ns);
    for record in &log.records {
        let elapsed_ns = record.time_ns.saturating_sub(start_ns);
        replay.device.virtual_clock().advance_to_ns(elapsed_ns);
        replay.step(record)?;
    }
    replay.finish()
}

impl Replay<'_> {
    fn stream(&mut self, logged: StreamId) -> Result<StreamId> {
        if logged == StreamId::HOST {
            return Ok(logged);
        }
        if let Some(stream) = self.streams.get(&logged) {
            return Ok(*stream);
        }
        let stream = self.device.create_stream(StreamPriority::Normal)?;
        self.streams.insert(logged, stream);
        Ok(stream)
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        let stream = self.stream(record.stream)?;
        match record.action {
            Action::Allocate | Action::Refuse => {
                let request = Request::new(record.bytes, stream).for_tenant(record.tenant);
                match self.resource.allocate(&request) {
                    Ok(allocation) => self.allocated(record, allocation, stream)?,
                    Err(error) if error.is_pressure() => self.report.refusals += 1,
                    Err(error) => return Err(error),
                }
            }
            Action::Free => match self.live.remove(&record.address) {
                Some(allocation) => self.free(allocation, stream)?,
                None if record.bytes == 0 => {}
                None => self.report.skipped_frees += 1,
            },
        }
        Ok(())
    }

    fn allocated(
        &mut self,
        record: &Record,
        allocation: Allocation,
        stream: StreamId,
    ) -> Result<()> {
        self.requested_bytes += record.bytes;
        let usage = self.resource.usage()?;
        let report = &mut self.report;
        report.allocations += 1;
        report.peak_requested_bytes = report.peak_requested_bytes.max(self.requested_bytes);
        report.peak_allocated_bytes = report.peak_allocated_bytes.max(usage.allocated_bytes);
        report.peak_held_bytes = report.peak_held_bytes.max(usage.held_bytes);
        if record.bytes == 0 {
            return Ok(());
        }
        if record.action == Action::Refuse {
            // The logged request failed, so the log has no free for it.
            return self.free(allocation, stream);
        }
        self.live.insert(record.address, allocation);
        Ok(())
    }

    fn free(&mut self, allocation: Allocation, stream: StreamId) -> Result<()> {
        if self.options.touch && stream != StreamId::HOST {
            let (address, bytes) = (allocation.address(), allocation.bytes());
            self.device.fill(stream, address, 0, bytes)?;
        }
        self.resource.deallocate(allocation, stream)?;
        self.requested_bytes -= allocation.bytes();
        self.report.frees += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<ReplayReport> {
        let mut streams: Vec<StreamId> = self.streams.values().copied().collect();
        streams.sort();
        for stream in streams {
            self.device.synchronize_stream(stream)?;
        }
        let calls = |operations: [Operation; 2]| -> Result<u64> {
            let [first, second] = operations.map(|operation| self.device.calls(operation));
            Ok(first? + second?)
        };
        let report = &mut self.report;
        report.device_allocations = calls([Operation::AllocateDevice, Operation::AllocateHost])?;
        report.device_frees = calls([Operation::FreeDevice, Operation::FreeHost])?;
        report.recorded_events = self.device.calls(Operation::RecordEvent)?;
        report.stream_waits = self.device.calls(Operation::WaitEvent)?;
        report.elapsed_ns = self.device.clock().now_ns();
        Ok(self.report)
    }
}
