//! Throughput of a resource, timed in Rust so that it excludes the cost of Python calls.

use super::resource::{Allocation, MemoryResource, Request, Result};
use crate::backend::StreamId;
use std::time::Instant;

/// A steady-state workload: each step frees a random live allocation and allocates another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Smallest request.
    pub smallest_bytes: u64,
    /// Largest request; sizes are log-uniform in between.
    pub largest_bytes: u64,
    /// Live allocations.
    pub live: usize,
}

/// A measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Pairs of one allocation and one free.
    pub pairs: u64,
    /// Time they took.
    pub elapsed_ns: u64,
}

/// Marsaglia's xorshift64 generator, for a reproducible sequence.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Steps are generated before timing and repeated.
const STEPS: usize = 1 << 14;

fn generate_steps(workload: &Workload) -> Vec<(usize, u64)> {
    let mut random = XorShift(0x9E37_79B9_7F4A_7C15);
    let smallest = workload.smallest_bytes.max(1);
    let doublings = (workload.largest_bytes.max(smallest) / smallest).ilog2();
    let mut step = || {
        let position = (random.next() % workload.live.max(1) as u64) as usize;
        let base = smallest << (random.next() % u64::from(doublings + 1));
        let bytes = base + random.next() % base;
        (position, bytes.min(workload.largest_bytes.max(smallest)))
    };
    (0..STEPS).map(|_| step()).collect()
}

/// Times `pairs` steps of the workload on one thread and one stream.
pub fn measure(
    resource: &dyn MemoryResource,
    stream: StreamId,
    workload: &Workload,
    pairs: u64,
) -> Result<Throughput> {
    let steps = generate_steps(workload);
    let mut live: Vec<Allocation> = (0..workload.live.max(1))
        .map(|position| {
            let bytes = steps[position % STEPS].1;
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
    Ok(Throughput { pairs, elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX) })
}
