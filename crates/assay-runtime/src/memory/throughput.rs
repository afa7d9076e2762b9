//! The pool's speed, timed here so that no caller's language is in the figure.

use super::resource::{Allocation, MemoryResource, Request, Result};
use crate::backend::StreamId;
use std::time::Instant;

/// A steady load: so many live allocations, of which a random one is replaced at each step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Smallest request.
    pub smallest_bytes: u64,
    /// Largest request; sizes are spread evenly over the doublings between.
    pub largest_bytes: u64,
    /// Allocations alive at any time.
    pub live: usize,
}

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Pairs of one allocation and one free.
    pub pairs: u64,
    /// Time they took.
    pub elapsed_ns: u64,
}

impl Throughput {
    /// Pairs per second.
    pub fn pairs_per_second(&self) -> f64 {
        self.pairs as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// A small generator of numbers, good enough to mix sizes and the same everywhere.
struct Mixer(u64);

impl Mixer {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Steps are drawn beforehand and repeated, so that drawing them is not timed.
const DRAWN_STEPS: usize = 1 << 14;

fn draw(workload: &Workload) -> Vec<(usize, u64)> {
    let mut mixer = Mixer(0x9E37_79B9_7F4A_7C15);
    let smallest = workload.smallest_bytes.max(1);
    let doublings = (workload.largest_bytes.max(smallest) / smallest).ilog2();
    let mut step = || {
        let position = (mixer.next() % workload.live.max(1) as u64) as usize;
        let base = smallest << (mixer.next() % u64::from(doublings + 1));
        let bytes = base + mixer.next() % base;
        (position, bytes.min(workload.largest_bytes.max(smallest)))
    };
    (0..DRAWN_STEPS).map(|_| step()).collect()
}

/// Replaces allocations `pairs` times on one thread and one stream, and times it.
pub fn measure(
    resource: &dyn MemoryResource,
    stream: StreamId,
    workload: &Workload,
    pairs: u64,
) -> Result<Throughput> {
    let steps = draw(workload);
    let mut live: Vec<Allocation> = (0..workload.live.max(1))
        .map(|position| {
            let bytes = steps[position % DRAWN_STEPS].1;
            resource.allocate(&Request::new(bytes, stream))
        })
        .collect::<Result<_>>()?;
    let mut replace = |count: u64| -> Result<()> {
        for (position, bytes) in steps.iter().cycle().take(count as usize) {
            resource.deallocate(live[*position], stream)?;
            live[*position] = resource.allocate(&Request::new(*bytes, stream))?;
        }
        Ok(())
    };
    replace(pairs / 10)?;
    let start = Instant::now();
    replace(pairs)?;
    let elapsed = start.elapsed().as_nanos();
    for allocation in live {
        resource.deallocate(allocation, stream)?;
    }
    Ok(Throughput {
        pairs,
        elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX),
    })
}
