//! Random use of the pool: one thread with every byte checked, eight threads with every range.

use assay_runtime::backend::{Address, Backend, HostPointer, Space, StreamId, StreamPriority};
use assay_runtime::memory::{
    Allocation, CrossStream, MemoryResource, Pool, PoolOptions, Request, Result,
};
use assay_runtime::sim::{Contents, SimBackend, SimOptions, SimProfile};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Step {
    Allocate { stream: usize, bytes: u64, slow: bool },
    Free { which: usize },
    FreeElsewhere { which: usize, stream: usize },
    Advance { nanoseconds: u64 },
    ReplaceStream { stream: usize },
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![
        4 => 1_u64..5_000,
        3 => 5_000_u64..40_000,
        2 => 40_000_u64..400_000,
    ];
    prop_oneof![
        10 => (0..3_usize, bytes, any::<bool>())
            .prop_map(|(stream, bytes, slow)| Step::Allocate { stream, bytes, slow }),
        6 => any::<usize>().prop_map(|which| Step::Free { which }),
        3 => (any::<usize>(), 0..3_usize)
            .prop_map(|(which, stream)| Step::FreeElsewhere { which, stream }),
        2 => (0_u64..100_000).prop_map(|nanoseconds| Step::Advance { nanoseconds }),
        1 => (0..3_usize).prop_map(|stream| Step::ReplaceStream { stream }),
        1 => Just(Step::Trim),
    ]
}

/// Calls take no host time and copies are slow, so that streams are nearly always busy.
fn busy_profile() -> SimProfile {
    let mut profile = SimProfile::generic();
    for memory in [&mut profile.device_memory, &mut profile.host_memory] {
        memory.allocate_ns = 0;
        memory.allocate_ns_per_mib = 0;
        memory.free_ns = 0;
    }
    profile.host_to_device.bytes_per_second = 1_000_000_000;
    profile.device_to_host.bytes_per_second = 2_000_000_000;
    profile.enqueue_ns = 0;
    profile.query_ns = 1;
    profile
}

struct Live {
    allocation: Allocation,
    stream: StreamId,
    tag: u8,
}

/// A pool in use; each block's bytes are copied out just before it is freed.
struct World {
    device: Arc<SimBackend>,
    pool: Pool,
    streams: Vec<StreamId>,
    sources: Vec<HostPointer>,
    live: Vec<Live>,
    checks: Vec<(HostPointer, u64, u8)>,
    next_tag: u8,
}

impl World {
    fn new(cross_stream: CrossStream, small_limit_bytes: u64) -> Result<Self> {
        let device = Arc::new(SimBackend::new(SimOptions {
            profile: busy_profile(),
            ..SimOptions::default()
        })?);
        let options = PoolOptions {
            slab_bytes: MIB,
            small_limit_bytes,
            cross_stream,
            ..PoolOptions::new(Space::Device, 3 * MIB)
        };
        let pool = Pool::new(device.clone(), options)?;
        let streams = (0..3)
            .map(|_| Ok(device.create_stream(StreamPriority::Normal)?))
            .collect::<Result<_>>()?;
        let sources = (0..=255_u8)
            .map(|tag| {
                let source = device.allocate_host(400_000)?;
                device.write_host(source, &vec![tag; 400_000])?;
                Ok(source)
            })
            .collect::<Result<_>>()?;
        Ok(World {
            device,
            pool,
            streams,
            sources,
            live: Vec::new(),
            checks: Vec::new(),
            next_tag: 0,
        })
    }

    fn allocate(&mut self, stream: StreamId, bytes: u64, slow: bool) -> Result<()> {
        let allocation = match self.pool.allocate(&Request::new(bytes, stream)) {
            Err(error) if error.is_pressure() => return Ok(()),
            outcome => outcome?,
        };
        self.next_tag = self.next_tag.wrapping_add(1);
        let (tag, address) = (self.next_tag, allocation.address());
        if slow {
            let source = self.sources[usize::from(tag)];
            self.device.copy(stream, source.into(), address, bytes)?;
        } else {
            self.device.fill(stream, address, tag, bytes)?;
        }
        self.live.push(Live { allocation, stream, tag });
        Ok(())
    }

    fn free(&mut self, which: usize, on: Option<usize>) -> Result<()> {
        if self.live.is_empty() {
            return Ok(());
        }
        let Live { allocation, stream, tag } = self.live.swap_remove(which % self.live.len());
        let on = on.map_or(stream, |index| self.streams[index]);
        if on != stream {
            // The freeing stream has to be ordered after the one that wrote.
            let event = self.device.create_event()?;
            self.device.record_event(event, stream)?;
            self.device.wait_event(on, event)?;
            self.device.destroy_event(event)?;
        }
        let bytes = allocation.bytes();
        let target = self.device.allocate_host(bytes)?;
        let (from, to) = (allocation.address(), Address::from(target));
        self.device.copy(on, from, to, bytes)?;
        self.checks.push((target, bytes, tag));
        self.pool.deallocate(allocation, on)
    }

    fn replace_stream(&mut self, index: usize) -> Result<()> {
        let old = self.streams[index];
        let new = self.device.create_stream(StreamPriority::Normal)?;
        self.streams[index] = new;
        // Live allocations move to the new stream, ordered by an event.
        let event = self.device.create_event()?;
        self.device.record_event(event, old)?;
        self.device.wait_event(new, event)?;
        for live in self.live.iter_mut().filter(|live| live.stream == old) {
            live.stream = new;
        }
        self.pool.forget_stream(old)?;
        Ok(self.device.destroy_stream(old)?)
    }

    fn run(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Allocate { stream, bytes, slow } => {
                self.allocate(self.streams[stream], bytes, slow)?
            }
            Step::Free { which } => self.free(which, None)?,
            Step::FreeElsewhere { which, stream } => self.free(which, Some(stream))?,
            Step::Advance { nanoseconds } => self.device.virtual_clock().advance_ns(nanoseconds),
            Step::ReplaceStream { stream } => self.replace_stream(stream)?,
            Step::Trim => drop(self.pool.trim()?),
        }
        self.pool.verify()
    }

    /// Frees everything, compares every byte that was copied out, and checks for leaks.
    fn finish(mut self) -> Result<()> {
        while !self.live.is_empty() {
            self.free(0, None)?;
        }
        for stream in &self.streams {
            self.device.synchronize_stream(*stream)?;
        }
        for (target, bytes, tag) in &self.checks {
            let mut contents = vec![0; *bytes as usize];
            self.device.read_host(*target, &mut contents)?;
            let wrong = contents.iter().find(|byte| **byte != *tag);
            assert_eq!(wrong, None, "a block of {bytes} bytes tagged {tag}");
        }
        self.pool.trim()?;
        self.pool.verify()?;
        assert_eq!(self.pool.usage()?.held_bytes, 0, "lost bytes");
        assert_eq!(self.device.used_bytes(Space::Device)?, 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_byte_has_two_owners(
        policy in prop_oneof![
            Just(CrossStream::GrowFirst),
            Just(CrossStream::WaitFirst),
            Just(CrossStream::Never),
        ],
        small_limit in prop_oneof![Just(0_u64), Just(4096), Just(32 << 10)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(policy, small_limit).expect("world");
        for step in steps {
            world.run(step).expect("step");
        }
        world.finish().expect("finish");
    }
}

/// The owner of each granule; 0 is none.
struct Shadow {
    base: u64,
    granules: Vec<AtomicU32>,
}

impl Shadow {
    fn range(&self, allocation: &Allocation) -> &[AtomicU32] {
        let start = (allocation.address().value() - self.base) / 256;
        let end = start + allocation.bytes().div_ceil(256);
        &self.granules[start as usize..end as usize]
    }

    fn claim(&self, allocation: &Allocation, owner: u32) {
        for granule in self.range(allocation) {
            let before = granule.swap(owner, Ordering::Relaxed);
            assert_eq!(before, 0, "{allocation:?} overlaps one of thread {before}");
        }
    }

    fn release(&self, allocation: &Allocation, owner: u32) {
        for granule in self.range(allocation) {
            let before = granule.swap(0, Ordering::Relaxed);
            assert_eq!(before, owner, "{allocation:?} was overwritten by thread {before}");
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self) -> u64 {
        match self.next() % 100 {
            0..70 => 1 + self.next() % 4_000,
            70..97 => 1 + self.next() % 40_000,
            _ => 1 + self.next() % 400_000,
        }
    }
}

/// Allocations to be freed by another thread.
type Exchange = Mutex<Vec<(Allocation, u32)>>;

fn worker(
    number: u32,
    operations: u64,
    device: &SimBackend,
    pool: &Pool,
    shadow: &Shadow,
    exchange: &Exchange,
) -> Result<u64> {
    let stream = device.create_stream(StreamPriority::Normal)?;
    let mut random = Random(u64::from(number) * 0x9E37_79B9 + 1);
    let mut live: Vec<(Allocation, u32)> = Vec::new();
    let mut refused = 0;
    let give_back = |(allocation, owner): (Allocation, u32)| {
        shadow.release(&allocation, owner);
        pool.deallocate(allocation, stream)
    };
    for _ in 0..operations {
        let room = live.len() < 300;
        if live.is_empty() || (room && random.next().is_multiple_of(2)) {
            match pool.allocate(&Request::new(random.bytes(), stream)) {
                Ok(allocation) => {
                    shadow.claim(&allocation, number);
                    live.push((allocation, number));
                }
                Err(error) if error.is_pressure() => refused += 1,
                Err(error) => return Err(error),
            }
            continue;
        }
        let entry = live.swap_remove(random.next() as usize % live.len());
        if random.next().is_multiple_of(16) {
            let mut waiting = exchange.lock().expect("not poisoned");
            let other = waiting.pop();
            waiting.push(entry);
            drop(waiting);
            if let Some(other) = other {
                give_back(other)?;
            }
        } else {
            give_back(entry)?;
        }
    }
    for entry in live {
        give_back(entry)?;
    }
    Ok(refused)
}

fn eight_threads(operations: u64) {
    let options = SimOptions { contents: Contents::Dropped, ..SimOptions::default() };
    let device = SimBackend::new(options).expect("device");
    let device = Arc::new(device);
    let capacity = 24 * MIB;
    let options = PoolOptions {
        // One slab, so that one shadow map covers it; small, so that streams share blocks.
        slab_bytes: capacity,
        ..PoolOptions::new(Space::Device, capacity)
    };
    let pool = Pool::new(device.clone(), options).expect("pool");
    let probe = pool.allocate(&Request::new(capacity, StreamId::HOST)).expect("the whole pool");
    let shadow = Shadow {
        base: probe.address().value(),
        granules: (0..capacity / 256).map(|_| AtomicU32::new(0)).collect(),
    };
    pool.deallocate(probe, StreamId::HOST).expect("given back");

    let exchange = Exchange::default();
    let (device_ref, pool_ref, shadow_ref) = (&*device, &pool, &shadow);
    let exchange_ref = &exchange;
    let refused: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=8)
            .map(|number| {
                scope.spawn(move || {
                    let share = operations / 8;
                    worker(number, share, device_ref, pool_ref, shadow_ref, exchange_ref)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        joined.map(|outcome| outcome.expect("no error")).sum()
    });
    for (allocation, owner) in exchange.into_inner().expect("not poisoned") {
        shadow.release(&allocation, owner);
        pool.deallocate(allocation, StreamId::HOST).expect("given back");
    }
    pool.verify().expect("consistent state");
    let statistics = pool.statistics().expect("statistics");
    println!("{refused} refused; {statistics:?}");
    assert_eq!(statistics.allocated_bytes, 0, "leaked");
    assert_eq!(pool.trim().expect("trimmed"), capacity, "lost bytes");
    assert_eq!(device.used_bytes(Space::Device), Ok(0));
}

#[test]
fn eight_threads_share_a_pool() {
    eight_threads(400_000);
}

#[test]
#[ignore = "ten million operations take over 5 s; run with `cargo test -p assay-runtime --test pool_random -- --ignored`"]
fn ten_million_operations_under_eight_threads() {
    eight_threads(10_000_000);
}
