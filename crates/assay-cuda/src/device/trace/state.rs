//! What a tracer keeps: the ring of records, and what its regions are.

use super::super::kernel::Function;
use super::super::sync::lock;
use super::calibration::{Calibration, ClockMap};
use super::records::{record_words, records, spans};
use super::region::Region;
use assay_runtime::backend::{BackendError, DevicePointer, HostPointer, Operation, Result};
use assay_runtime::trace::{DeviceSpans, LaunchInfo, WorkSpans};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The ring of records in device memory.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub words: DevicePointer,
    pub mask: u64,
    /// How many words were written so far.
    pub head: DevicePointer,
    /// A slot for launches that belong to no trace.
    pub unused: DevicePointer,
}

/// What a region's records stand for.
pub(super) struct RegionFacts {
    launches: Arc<[LaunchInfo]>,
    tickets: Tickets,
}

enum Tickets {
    /// Of each launch, for launches outside of graphs.
    Launches(Vec<u64>),
    /// Of each replay, in order, for graphs.
    Replays(VecDeque<u64>),
}

pub(super) struct State {
    pub ring: Ring,
    pub flush: Arc<Function>,
    pub clock: Arc<Function>,
    pub staging: HostPointer,
    pub start: Calibration,
    pub regions: HashMap<u64, RegionFacts>,
    /// Words of records that were queued and not read yet.
    pub pending_words: u64,
    /// Words that were read so far.
    pub read_words: u64,
    pub records: Vec<u64>,
    pub capacity_words: usize,
    pub dropped: u64,
}

/// The tracer of a GPU.
#[derive(Default)]
pub(in super::super) struct DeviceTracer {
    pub(super) is_on: AtomicBool,
    pub(super) state: Mutex<Option<State>>,
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
                RegionFacts { launches: launches.into(), tickets: Tickets::Launches(tickets) },
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

    /// How many launches a region has; none if it belongs to no trace.
    pub(super) fn launches_of(&self, region: u64) -> Option<usize> {
        let state = lock(&self.state);
        let facts = state.as_ref()?.regions.get(&region)?;
        Some(facts.launches.len())
    }

    /// Keeps the ticket of a replay that is queued next.
    pub(super) fn add_ticket(&self, region: u64, launches: usize, ticket: u64) {
        if let Some(state) = &mut *lock(&self.state) {
            state.pending_words += record_words(launches);
            if let Some(RegionFacts { tickets: Tickets::Replays(tickets), .. }) =
                state.regions.get_mut(&region)
            {
                tickets.push_back(ticket);
            }
        }
    }
}

impl State {
    /// What the records say.
    pub fn spans(&mut self, end: Calibration) -> DeviceSpans {
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
