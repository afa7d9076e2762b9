//! The tracer of a GPU: the ring of records, and what its regions are.

use super::super::cuda_device::CudaDevice;
use super::super::kernel::{Function, LaunchOptions};
use super::super::sync::lock;
use super::calibration::{Calibration, ClockMap};
use super::records::{record_words, records, spans};
use super::region::Region;
use crate::compiler::Source;
use crate::sources;
use assay_runtime::backend::{
    Address, Backend, BackendError, DevicePointer, HostPointer, Operation, Result,
};
use assay_runtime::trace::{DeviceSpans, LaunchInfo, Tracer, WorkSpans};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Words of the ring: 16 MiB, some 4,000 steps of 250 launches.
const RING_WORDS: u64 = 1 << 21;
/// Bytes that are copied to the host at once.
const STAGING_BYTES: u64 = 4 << 20;

/// The ring of records in device memory.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub words: DevicePointer,
    pub mask: u64,
    /// How many words were written so far.
    pub head: DevicePointer,
    /// A slot for launches that belong to no trace.
    unused: DevicePointer,
}

/// What a region's records stand for.
struct RegionFacts {
    launches: Arc<[LaunchInfo]>,
    tickets: Tickets,
}

enum Tickets {
    /// Of each launch, for launches outside of graphs.
    Launches(Vec<u64>),
    /// Of each replay, in order, for graphs.
    Replays(VecDeque<u64>),
}

struct State {
    ring: Ring,
    flush: Arc<Function>,
    clock: Arc<Function>,
    staging: HostPointer,
    start: Calibration,
    regions: HashMap<u64, RegionFacts>,
    /// Words of records that were queued and not read yet.
    pending_words: u64,
    /// Words that were read so far.
    read_words: u64,
    records: Vec<u64>,
    capacity_words: usize,
    dropped: u64,
}

/// The tracer of a GPU.
#[derive(Default)]
pub(in super::super) struct DeviceTracer {
    is_on: AtomicBool,
    state: Mutex<Option<State>>,
}

fn not_started() -> BackendError {
    BackendError::Driver {
        operation: Operation::Launch,
        message: "expected a trace that was started".to_owned(),
    }
}

impl DeviceTracer {
    /// Whether a trace is captured.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// The flush kernel and the ring that it writes to.
    pub(super) fn flush(&self) -> Result<(Arc<Function>, Ring)> {
        let state = lock(&self.state);
        let state = state.as_ref().ok_or_else(not_started)?;
        Ok((Arc::clone(&state.flush), state.ring))
    }

    pub(super) fn unused_slot(&self) -> Result<DevicePointer> {
        let state = lock(&self.state);
        Ok(state.as_ref().ok_or_else(not_started)?.ring.unused)
    }

    /// Keeps what the launches of a region outside of graphs are.
    pub(super) fn add_launches(&self, region: Region) {
        if let Some(state) = &mut *lock(&self.state) {
            state.pending_words += record_words(region.launches.len());
            state.dropped += region.beyond;
            let (tickets, launches): (Vec<u64>, Vec<LaunchInfo>) =
                region.launches.into_iter().unzip();
            state.regions.insert(
                region.id,
                RegionFacts {
                    launches: launches.into(),
                    tickets: Tickets::Launches(tickets),
                },
            );
        }
    }

    /// Keeps what the launches of a graph are.
    pub fn add_graph(&self, region: Region) {
        if let Some(state) = &mut *lock(&self.state) {
            let launches = region.launches.into_iter().map(|(_, info)| info);
            state.regions.insert(
                region.id,
                RegionFacts {
                    launches: launches.collect(),
                    tickets: Tickets::Replays(VecDeque::new()),
                },
            );
        }
    }

    /// Notes that a replay of a graph is queued next, under a ticket.
    pub fn add_replay(&self, device: &CudaDevice, region: u64, ticket: u64) -> Result<()> {
        if !self.is_on() {
            return Ok(());
        }
        let launches = match &*lock(&self.state) {
            Some(state) => state.regions.get(&region).map(|facts| facts.launches.len()),
            None => None,
        };
        let Some(launches) = launches else {
            return Ok(());
        };
        self.make_room(device, launches)?;
        if let Some(state) = &mut *lock(&self.state) {
            state.pending_words += record_words(launches);
            if let Some(RegionFacts {
                tickets: Tickets::Replays(tickets),
                ..
            }) = state.regions.get_mut(&region)
            {
                tickets.push_back(ticket);
            }
        }
        Ok(())
    }

    /// Reads the ring if a record of so many launches would fill more than half of it.
    pub(super) fn make_room(&self, device: &CudaDevice, launches: usize) -> Result<()> {
        let mut state = lock(&self.state);
        match &mut *state {
            Some(state) if state.pending_words + record_words(launches) > RING_WORDS / 2 => {
                state.read(device)
            }
            _ => Ok(()),
        }
    }
}

impl State {
    fn new(device: &CudaDevice) -> Result<Self> {
        let words = device.memory.allocate_zeros(RING_WORDS * 8)?;
        let control = device.memory.allocate_zeros(64)?;
        let flush = Arc::new(compile(device, "trace_flush")?);
        let clock = Arc::new(compile(device, "trace_clock")?);
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
            staging: device.allocate_host(STAGING_BYTES)?,
            regions: HashMap::new(),
            pending_words: 0,
            read_words: 0,
            records: Vec::new(),
            capacity_words: 0,
            dropped: 0,
        })
    }

    /// Waits for the queued records and reads them.
    fn read(&mut self, device: &CudaDevice) -> Result<()> {
        for stream in device.all_streams() {
            if stream.outside_capture(Operation::SynchronizeStream).is_ok() {
                stream.synchronize(Operation::SynchronizeStream, &device.watchdog)?;
            }
        }
        self.pending_words = 0;
        let mut head = Vec::with_capacity(1);
        self.copy(device, self.ring.head, 1, &mut head)?;
        let head = head.first().copied().unwrap_or(self.read_words);
        let count = head.saturating_sub(self.read_words);
        let (first, kept) = (self.read_words, self.records.len());
        self.read_words = head;
        if count > RING_WORDS || kept + count as usize > self.capacity_words {
            // Overwritten before it was read, or beyond what is to be kept.
            self.dropped += count / 2;
            return Ok(());
        }
        let mut read = std::mem::take(&mut self.records);
        let mut at = first;
        while at < head {
            let offset = at & self.ring.mask;
            let words = (head - at).min(RING_WORDS - offset).min(STAGING_BYTES / 8);
            let from = DevicePointer(self.ring.words.0 + offset * 8);
            self.copy(device, from, words, &mut read)?;
            at += words;
        }
        self.records = read;
        Ok(())
    }

    fn copy(
        &self,
        device: &CudaDevice,
        from: DevicePointer,
        words: u64,
        into: &mut Vec<u64>,
    ) -> Result<()> {
        let stream = &device.default_stream;
        device.copy_on(
            stream,
            Address::from(from),
            Address::from(self.staging),
            words * 8,
        )?;
        stream.synchronize(Operation::SynchronizeStream, &device.watchdog)?;
        let mut bytes = vec![0; words as usize * 8];
        device.read_host(self.staging, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        into.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
        Ok(())
    }

    /// What the records say.
    fn spans(&mut self, end: Calibration) -> DeviceSpans {
        let map = ClockMap::new(self.start, end);
        let mut found = DeviceSpans {
            dropped: self.dropped,
            clock_error_ns: self.start.error_ns.max(end.error_ns),
            resolution_ns: match (self.start.resolution_ns, end.resolution_ns) {
                (0, known) | (known, 0) => known,
                (one, other) => one.min(other),
            },
            ..DeviceSpans::default()
        };
        for record in records(&self.records) {
            let Some(facts) = self.regions.get_mut(&record.region) else {
                continue;
            };
            let each = spans(&record).into_iter().map(|span| map.span(span));
            let first = found.spans.len();
            match &mut facts.tickets {
                Tickets::Replays(tickets) => {
                    let Some(ticket) = tickets.pop_front() else {
                        continue;
                    };
                    found.spans.extend(each);
                    found.works.push(WorkSpans {
                        ticket,
                        first,
                        count: found.spans.len() - first,
                        launches: Some(Arc::clone(&facts.launches)),
                    });
                }
                Tickets::Launches(tickets) => {
                    found.spans.extend(each);
                    add_works(&mut found, first, tickets, &facts.launches);
                }
            }
        }
        found
    }
}

/// One piece of work for each run of launches of the same ticket.
fn add_works(found: &mut DeviceSpans, first: usize, tickets: &[u64], launches: &[LaunchInfo]) {
    let mut at = 0;
    for run in tickets.chunk_by(|one, next| one == next) {
        found.works.push(WorkSpans {
            ticket: run[0],
            first: first + at,
            count: run.len(),
            launches: launches.get(at..at + run.len()).map(Arc::from),
        });
        at += run.len();
    }
}

fn compile(device: &CudaDevice, kernel: &str) -> Result<Function> {
    let failed = |message: String| BackendError::Driver {
        operation: Operation::Launch,
        message,
    };
    let name = format!("{kernel}.cu");
    let text =
        sources::source(&name).ok_or_else(|| failed(format!("there is no source {name}")))?;
    let source = Source {
        name: &name,
        text,
        headers: &sources::headers(),
        options: &[],
    };
    let module = device.compile(&source);
    let module = module.map_err(|error| failed(error.to_string()))?;
    module.function(
        kernel,
        LaunchOptions {
            programmatic_dependent_launch: kernel == "trace_flush",
            ..LaunchOptions::default()
        },
    )
}

impl Tracer for CudaDevice {
    fn start(&self, capacity: usize) -> Result<()> {
        let mut state = lock(&self.tracer.state);
        // The ring outlives a trace: graphs that were captured in it may still be replayed.
        let mut started = match state.take() {
            Some(before) => before,
            None => State::new(self)?,
        };
        started.regions.clear();
        started.records = Vec::new();
        started.read(self)?;
        started.records.clear();
        started.dropped = 0;
        started.capacity_words = capacity.saturating_mul(2).saturating_add(3);
        started.start = Calibration::new(self, &started.clock)?;
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
        state.read(self)?;
        let end = Calibration::new(self, &state.clock)?;
        let found = state.spans(end);
        state.records = Vec::new();
        state.regions.clear();
        Ok(found)
    }
}
