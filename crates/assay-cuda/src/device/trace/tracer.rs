//! The trace of a GPU, from its start to its end.

use super::super::cuda_device::CudaDevice;
use super::super::kernel::{Function, LaunchOptions};
use super::super::sync::lock;
use super::calibration::Calibration;
use super::clock_reading::read_clocks;
use super::records::record_words;
use super::state::{Ring, State};
use crate::compiler::Source;
use crate::sources;
use assay_runtime::backend::{
    Address, Backend, BackendError, DevicePointer, Operation, Result, Tracer,
};
use assay_runtime::trace::DeviceSpans;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of the ring: 16 MiB, some 4,000 steps of 250 launches.
const RING_WORDS: u64 = 1 << 21;
/// Bytes that are copied to the host at once.
const STAGING_BYTES: u64 = 4 << 20;

impl CudaDevice {
    /// Notes that a replay of a graph is queued next, under a ticket.
    pub(in super::super) fn trace_replay(&self, region: u64, ticket: u64) -> Result<()> {
        if !self.tracer.is_on() {
            return Ok(());
        }
        let Some(launches) = self.tracer.launches_of(region) else {
            return Ok(());
        };
        self.make_trace_room(launches)?;
        self.tracer.add_ticket(region, launches, ticket);
        Ok(())
    }

    /// Reads the ring if a record of so many launches would fill more than half of it.
    pub(super) fn make_trace_room(&self, launches: usize) -> Result<()> {
        let mut state = lock(&self.tracer.state);
        match &mut *state {
            Some(state) if state.pending_words + record_words(launches) > RING_WORDS / 2 => {
                self.read_records(state)
            }
            _ => Ok(()),
        }
    }

    fn new_trace_state(&self) -> Result<State> {
        let words = self.memory.allocate_zeros(RING_WORDS * 8)?;
        let control = self.memory.allocate_zeros(64)?;
        let after_kernels =
            LaunchOptions { programmatic_dependent_launch: true, ..LaunchOptions::default() };
        let flush = Arc::new(self.compile_bundled("trace_flush", after_kernels)?);
        let clock = Arc::new(self.compile_bundled("trace_clock", LaunchOptions::default())?);
        Ok(State {
            ring: Ring {
                words,
                mask: RING_WORDS - 1,
                head: control,
                unused: DevicePointer(control.0 + 16),
            },
            start: Calibration::default(),
            flush,
            clock,
            staging: self.allocate_host(STAGING_BYTES)?,
            regions: HashMap::new(),
            pending_words: 0,
            read_words: 0,
            records: Vec::new(),
            capacity_words: 0,
            dropped: 0,
        })
    }

    /// Waits for the queued records and reads them.
    fn read_records(&self, state: &mut State) -> Result<()> {
        for stream in self.all_streams() {
            if stream.outside_capture(Operation::SynchronizeStream).is_ok() {
                stream.synchronize(Operation::SynchronizeStream, &self.watchdog)?;
            }
        }
        state.pending_words = 0;
        let mut head = Vec::with_capacity(1);
        self.copy_words(state, state.ring.head, 1, &mut head)?;
        let head = head.first().copied().unwrap_or(state.read_words);
        let count = head.saturating_sub(state.read_words);
        let (first, kept) = (state.read_words, state.records.len());
        state.read_words = head;
        if count > RING_WORDS || kept + count as usize > state.capacity_words {
            // Overwritten before it was read, or beyond what is to be kept.
            state.dropped += count / 2;
            return Ok(());
        }
        let mut read = std::mem::take(&mut state.records);
        let mut at = first;
        while at < head {
            let offset = at & state.ring.mask;
            let words = (head - at).min(RING_WORDS - offset).min(STAGING_BYTES / 8);
            let from = DevicePointer(state.ring.words.0 + offset * 8);
            self.copy_words(state, from, words, &mut read)?;
            at += words;
        }
        state.records = read;
        Ok(())
    }

    fn copy_words(
        &self,
        state: &State,
        from: DevicePointer,
        words: u64,
        into: &mut Vec<u64>,
    ) -> Result<()> {
        let stream = &self.default_stream;
        self.copy_on(stream, Address::from(from), Address::from(state.staging), words * 8)?;
        stream.synchronize(Operation::SynchronizeStream, &self.watchdog)?;
        let mut bytes = vec![0; words as usize * 8];
        self.read_host(state.staging, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        into.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        Ok(())
    }
}

impl CudaDevice {
    /// The kernel of a bundled source that has the kernel's name and no options.
    pub(in super::super) fn compile_bundled(
        &self,
        kernel: &str,
        options: LaunchOptions,
    ) -> Result<Function> {
        let failed =
            |message: String| BackendError::Driver { operation: Operation::Launch, message };
        let name = format!("{kernel}.cu");
        let text =
            sources::source(&name).ok_or_else(|| failed(format!("there is no source {name}")))?;
        let source = Source { name: &name, text, headers: &sources::headers(), options: &[] };
        let module = self.compile(&source);
        let module = module.map_err(|error| failed(error.to_string()))?;
        module.function(kernel, options)
    }
}

impl Tracer for CudaDevice {
    fn start(&self, capacity: usize) -> Result<()> {
        let mut state = lock(&self.tracer.state);
        // The ring outlives a trace: graphs that were captured in it may still be replayed.
        let mut started = match state.take() {
            Some(before) => before,
            None => self.new_trace_state()?,
        };
        started.regions.clear();
        started.records = Vec::new();
        self.read_records(&mut started)?;
        started.records.clear();
        started.dropped = 0;
        started.capacity_words = capacity.saturating_mul(2).saturating_add(3);
        started.start = read_clocks(self, &started.clock)?;
        *state = Some(started);
        self.tracer.is_on.store(true, Ordering::Release);
        Ok(())
    }

    fn stop(&self) -> Result<DeviceSpans> {
        for stream in self.all_streams() {
            let region = lock(&stream.region).take_if(|region| !region.is_captured);
            if let Some(region) = region {
                let slots = region.slots;
                self.flush_region(&stream, region)?;
                self.memory.free_device(slots, &[Arc::clone(&stream)])?;
            }
        }
        self.tracer.is_on.store(false, Ordering::Release);
        let mut state = lock(&self.tracer.state);
        let Some(state) = &mut *state else {
            return Ok(DeviceSpans::default());
        };
        self.read_records(state)?;
        let end = read_clocks(self, &state.clock)?;
        let found = state.spans(end);
        state.records = Vec::new();
        state.regions.clear();
        Ok(found)
    }
}
