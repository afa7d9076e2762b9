//! The contract of memory resources as a test suite that runs on any of them.

use super::direct_resource::DirectResource;
use super::resource::{Allocation, MemoryResource, Request, Result};
use super::size_class::GRANULE_BYTES;
use crate::backend::contract::Violation;
use crate::backend::{Address, Backend, Space, StreamId, StreamPriority};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Outcome<T = ()> = std::result::Result<T, Violation>;

/// The minimum capacity of a resource under test.
pub const MIN_CAPACITY_BYTES: u64 = 16 << 20;

/// Runs every clause against a resource with no live allocations.
///
/// The backend must keep contents. The resource needs [`MIN_CAPACITY_BYTES`] and should not have
/// much more, because one clause exhausts it.
pub fn check(backend: &Arc<dyn Backend>, resource: &dyn MemoryResource) -> Outcome {
    let checker = Checker { backend, resource };
    checker.empty_requests()?;
    checker.disjoint()?;
    checker.errors()?;
    checker.exhaustion()?;
    checker.stream_order()?;
    checker.threads()
}

struct Checker<'a> {
    backend: &'a Arc<dyn Backend>,
    resource: &'a dyn MemoryResource,
}

fn violation<T>(clause: &'static str, expected: &str, got: String) -> Outcome<T> {
    Err(Violation { clause, expected: expected.to_owned(), got })
}

fn ok<T, E: std::fmt::Display>(
    clause: &'static str,
    outcome: std::result::Result<T, E>,
) -> Outcome<T> {
    outcome.or_else(|error| violation(clause, "success", error.to_string()))
}

fn fails<T>(clause: &'static str, code: &str, outcome: Result<T>) -> Outcome {
    match outcome {
        Ok(_) => violation(clause, code, "success".to_owned()),
        Err(error) if error.code() == code => Ok(()),
        Err(error) => violation(clause, code, error.to_string()),
    }
}

fn holds(clause: &'static str, expected: &str, condition: bool, got: String) -> Outcome {
    if condition { Ok(()) } else { violation(clause, expected, got) }
}

/// Live ranges by start address, for overlap checks.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn insert(&mut self, allocation: Allocation) -> Outcome {
        let clause = "allocations are disjoint";
        let start = allocation.address().value();
        let end = start + allocation.bytes();
        let below = self.0.range(..end).next_back();
        if let Some((other, other_end)) = below.filter(|(_, other_end)| **other_end > start) {
            let got = format!("{start:#x}..{end:#x} and {other:#x}..{other_end:#x}");
            return violation(clause, "no common byte", got);
        }
        self.0.insert(start, end);
        Ok(())
    }

    fn remove(&mut self, allocation: Allocation) {
        self.0.remove(&allocation.address().value());
    }
}

impl Checker<'_> {
    fn stream(&self) -> StreamId {
        self.backend.default_stream()
    }

    fn allocate(&self, clause: &'static str, bytes: u64, stream: StreamId) -> Outcome<Allocation> {
        ok(clause, self.resource.allocate(&Request::new(bytes, stream)))
    }

    fn free(&self, clause: &'static str, allocation: Allocation, stream: StreamId) -> Outcome {
        ok(clause, self.resource.deallocate(allocation, stream))
    }

    fn expect_empty(&self, clause: &'static str) -> Outcome {
        let usage = ok(clause, self.resource.usage())?;
        let empty = (usage.live, usage.allocated_bytes) == (0, 0);
        holds(clause, "nothing allocated", empty, format!("{usage:?}"))
    }

    fn empty_requests(&self) -> Outcome {
        let clause = "an empty request succeeds";
        let first = self.allocate(clause, 0, self.stream())?;
        let second = self.allocate(clause, 0, self.stream())?;
        holds(clause, "no bytes", first.bytes() == 0, format!("{first:?}"))?;
        for allocation in [first, second, first] {
            self.free(clause, allocation, self.stream())?;
        }
        self.expect_empty(clause)
    }

    fn disjoint(&self) -> Outcome {
        let clause = "allocations are aligned and counted";
        let stream = self.stream();
        let mut ranges = Ranges::default();
        let mut live = Vec::new();
        let size = |step: u64| 1 + (step * 7919) % 40_000;
        for step in 0..200 {
            let allocation = self.allocate(clause, size(step), stream)?;
            let address = allocation.address();
            let valid = address.value() % GRANULE_BYTES == 0
                && address.space() == self.resource.space()
                && allocation.bytes() == size(step);
            holds(clause, "the requested size, aligned", valid, format!("{allocation:?}"))?;
            ranges.insert(allocation)?;
            live.push(allocation);
            if step % 3 == 2 {
                let freed = live.swap_remove((step as usize * 31) % live.len());
                ranges.remove(freed);
                self.free(clause, freed, stream)?;
            }
        }
        let usage = ok(clause, self.resource.usage())?;
        let requested: u64 = live.iter().map(Allocation::bytes).sum();
        let counted = usage.live == live.len() as u64
            && usage.allocated_bytes >= requested
            && usage.held_bytes >= usage.allocated_bytes
            && usage.capacity_bytes >= usage.held_bytes;
        let expected = "requested <= allocated <= held <= capacity";
        holds(clause, expected, counted, format!("{requested} and {usage:?}"))?;
        for allocation in live {
            self.free(clause, allocation, stream)?;
        }
        self.expect_empty(clause)
    }

    fn errors(&self) -> Outcome {
        let stream = self.stream();
        let clause = "a double free fails";
        let allocation = self.allocate(clause, 1000, stream)?;
        self.free(clause, allocation, stream)?;
        fails(clause, "already_freed", self.resource.deallocate(allocation, stream))?;

        let clause = "a free in another resource fails";
        let other = DirectResource::new(Arc::clone(self.backend), self.resource.space(), 1 << 20);
        let foreign = ok(clause, other.allocate(&Request::new(1000, stream)))?;
        fails(clause, "unknown_allocation", self.resource.deallocate(foreign, stream))?;
        ok(clause, other.deallocate(foreign, stream))?;

        let clause = "an unknown stream fails";
        let unknown = StreamId(u32::MAX - 1);
        let request = Request::new(1000, unknown);
        fails(clause, "unknown_stream", self.resource.allocate(&request))?;

        let clause = "a request above capacity fails with memory pressure";
        for bytes in [u64::MAX, u64::MAX / 2, 1 << 50] {
            let outcome = self.resource.allocate(&Request::new(bytes, stream));
            let pressure = matches!(&outcome, Err(error) if error.is_pressure());
            holds(clause, "memory pressure", pressure, format!("{outcome:?}"))?;
        }
        self.expect_empty("failed requests allocate nothing")
    }

    /// Exhausts the resource, frees everything and exhausts it again.
    fn exhaustion(&self) -> Outcome {
        let clause = "freed memory can be allocated again";
        let stream = self.stream();
        let bytes = 1 << 20;
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let mut live = Vec::new();
            let error = loop {
                match self.resource.allocate(&Request::new(bytes, stream)) {
                    Ok(allocation) => live.push(allocation),
                    Err(error) => break error,
                }
            };
            let pressure = error.is_pressure();
            holds(clause, "memory pressure", pressure, error.to_string())?;
            rounds.push(live.len());
            for allocation in live {
                self.free(clause, allocation, stream)?;
            }
        }
        // Cached small blocks may fragment the first round, not later ones.
        let steady = rounds.windows(2).all(|pair| pair[0] <= pair[1])
            && rounds[0] as u64 >= MIN_CAPACITY_BYTES / bytes;
        let expected = "no fewer blocks than before";
        holds(clause, expected, steady, format!("{rounds:?}"))?;
        self.expect_empty(clause)
    }

    /// Memory freed behind slow work must not be reused on another stream before that work ends.
    fn stream_order(&self) -> Outcome {
        let clause = "reuse between streams is ordered";
        let create = || ok(clause, self.backend.create_stream(StreamPriority::Normal));
        let (first, second) = (create()?, create()?);
        let bytes = 1 << 20;
        let source = self.opposite_space(bytes)?;
        ok(clause, self.backend.fill(first, source, 1, bytes))?;
        // Slow copies into blocks that are freed immediately. They run on another engine than the
        // fills below, so that only the resource orders the two.
        for _ in 0..24 {
            let Ok(allocation) = self.resource.allocate(&Request::new(bytes, first)) else {
                break;
            };
            let target = allocation.address();
            for _ in 0..4 {
                ok(clause, self.backend.copy(first, source, target, bytes))?;
            }
            self.free(clause, allocation, first)?;
        }
        let mut live = Vec::new();
        for _ in 0..MIN_CAPACITY_BYTES / bytes {
            let allocation = self.allocate(clause, bytes, second)?;
            ok(clause, self.backend.fill(second, allocation.address(), 2, bytes))?;
            live.push(allocation);
        }
        ok(clause, self.backend.synchronize_stream(second))?;
        ok(clause, self.backend.synchronize_stream(first))?;
        for allocation in live {
            let contents = self.read(allocation, second)?;
            let wrong = contents.iter().find(|byte| **byte != 2);
            let got = format!("{wrong:?} from the other stream");
            holds(clause, "the new owner's bytes", wrong.is_none(), got)?;
            self.free(clause, allocation, second)?;
        }
        match source {
            Address::Device(pointer) => ok(clause, self.backend.free_device(pointer))?,
            Address::Host(pointer) => ok(clause, self.backend.free_host(pointer))?,
        }
        self.expect_empty(clause)
    }

    /// Memory in the space that the resource does not allocate from.
    fn opposite_space(&self, bytes: u64) -> Outcome<Address> {
        let clause = "memory in the opposite space";
        match self.resource.space() {
            Space::Device => ok(clause, self.backend.allocate_host(bytes)).map(Address::from),
            Space::Host => ok(clause, self.backend.allocate_device(bytes)).map(Address::from),
        }
    }

    fn read(&self, allocation: Allocation, stream: StreamId) -> Outcome<Vec<u8>> {
        let clause = "reading back";
        let host = ok(clause, self.backend.allocate_host(allocation.bytes()))?;
        let target = Address::from(host);
        let copied = self.backend.copy(stream, allocation.address(), target, allocation.bytes());
        ok(clause, copied)?;
        ok(clause, self.backend.synchronize_stream(stream))?;
        let mut bytes = vec![0; allocation.bytes() as usize];
        ok(clause, self.backend.read_host(host, &mut bytes))?;
        ok(clause, self.backend.free_host(host))?;
        Ok(bytes)
    }

    fn threads(&self) -> Outcome {
        let clause = "threads share the resource";
        let ranges = Mutex::new(Ranges::default());
        let worker = &|number: u64| -> Outcome {
            let stream = ok(clause, self.backend.create_stream(StreamPriority::Normal))?;
            let mut live: Vec<Allocation> = Vec::new();
            for step in 0..500_u64 {
                if live.len() > 20 {
                    let freed = live.swap_remove((step as usize * 17) % live.len());
                    // Removed before the free: after it, another thread may get the range.
                    ok(clause, ranges.lock())?.remove(freed);
                    self.free(clause, freed, stream)?;
                }
                let bytes = 1 + ((step + number * 1000) * 7919) % 20_000;
                let allocation = self.allocate(clause, bytes, stream)?;
                ok(clause, ranges.lock())?.insert(allocation)?;
                live.push(allocation);
            }
            for allocation in live {
                ok(clause, ranges.lock())?.remove(allocation);
                self.free(clause, allocation, stream)?;
            }
            Ok(())
        };
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|number| scope.spawn(move || worker(number))).collect();
            let panicked = || violation(clause, "no panic", "a panic".to_owned());
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| panicked())).collect()
        });
        outcomes.into_iter().collect::<Outcome<Vec<()>>>()?;
        self.expect_empty(clause)
    }
}
