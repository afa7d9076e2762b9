//! Evictable buffers: bytes survive spill and restore, eviction is LRU, leases are released.

use assay_runtime::backend::{Backend, Operation, Space, StreamId, StreamPriority};
use assay_runtime::memory::adaptors::{Decision, FailureCallbackAdaptor};
use assay_runtime::memory::{
    Buffer, BufferId, Direction, MemoryResource, Pool, PoolOptions, Request, Residency, Result,
};
use assay_runtime::sim::{Fault, FaultMoment, SimBackend, SimOptions};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

struct Setup {
    device: Arc<SimBackend>,
    memory: Arc<Pool>,
    host: Arc<Pool>,
    residency: Arc<Residency>,
}

fn setup(device_bytes: u64, host_bytes: u64) -> Setup {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid options"));
    let pool = |space, bytes: u64| {
        let mut options = PoolOptions::new(space, bytes);
        options.slab_bytes = bytes;
        Arc::new(Pool::new(device.clone(), options).expect("valid options"))
    };
    let (memory, host) = (pool(Space::Device, device_bytes), pool(Space::Host, host_bytes));
    let residency = Residency::new(device.clone(), memory.clone(), host.clone());
    Setup { device, memory, host, residency }
}

/// Pseudorandom bytes for a seed, zero included.
fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mut value = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut contents = Vec::with_capacity(bytes as usize + 8);
    while contents.len() < bytes as usize {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        contents.extend_from_slice(&value.to_le_bytes());
    }
    contents.truncate(bytes as usize);
    contents
}

impl Setup {
    fn stream(&self) -> StreamId {
        self.device.create_stream(StreamPriority::Normal).expect("stream")
    }

    fn create(&self, bytes: u64, stream: StreamId) -> Result<BufferId> {
        self.residency.create(&Request::new(bytes, stream))
    }

    /// Queues an asynchronous copy into the buffer on the stream.
    fn write(&self, buffer: BufferId, contents: &[u8], stream: StreamId) -> Result<()> {
        let bytes = contents.len() as u64;
        let staging = self.device.allocate_host(bytes)?;
        self.device.write_host(staging, contents)?;
        let lease = self.residency.lease(buffer, stream)?;
        self.device.copy(stream, staging.into(), lease.address(), bytes)?;
        Ok(())
    }

    /// Writes the buffer, waits for it and frees the staging memory.
    fn write_now(&self, buffer: BufferId, contents: &[u8], stream: StreamId) -> Result<()> {
        let bytes = contents.len() as u64;
        let staging = self.device.allocate_host(bytes)?;
        self.device.write_host(staging, contents)?;
        let lease = self.residency.lease(buffer, stream)?;
        self.device.copy(stream, staging.into(), lease.address(), bytes)?;
        Ok(self.device.free_host(staging)?)
    }

    fn read(&self, buffer: BufferId, stream: StreamId) -> Result<Vec<u8>> {
        let lease = self.residency.lease(buffer, stream)?;
        let staging = self.device.allocate_host(lease.bytes())?;
        self.device.copy(stream, lease.address(), staging.into(), lease.bytes())?;
        self.device.synchronize_stream(stream)?;
        let mut contents = vec![0; lease.bytes() as usize];
        self.device.read_host(staging, &mut contents)?;
        self.device.free_host(staging)?;
        Ok(contents)
    }

    fn moves(&self, direction: Direction) -> Vec<BufferId> {
        let moves = self.residency.take_movements().expect("movements");
        let chosen = moves.iter().filter(|step| step.direction == direction);
        chosen.map(|step| step.buffer).collect()
    }

    fn verify(&self) {
        self.memory.verify().expect("device pool");
        self.host.verify().expect("host pool");
    }
}

#[test]
fn restored_buffer_has_its_bytes() -> Result<()> {
    let setup = setup(4 * MIB, 16 * MIB);
    let stream = setup.stream();
    let contents = pattern(1, MIB + 77);
    let buffer = setup.create(MIB + 77, stream)?;
    setup.write(buffer, &contents, stream)?;
    for round in 0..3 {
        setup.residency.evict(buffer, stream)?;
        assert!(!setup.residency.is_resident(buffer)?);
        // Another buffer overwrites the memory it left, so that stale bytes cannot pass the test.
        let other = setup.create(4 * MIB, stream)?;
        setup.write(other, &vec![round; 4 << 20], stream)?;
        setup.residency.destroy(other, stream)?;
        assert!(setup.read(buffer, stream)? == contents, "round {round}");
        assert!(setup.residency.is_resident(buffer)?);
    }
    let usage = setup.residency.usage()?;
    assert_eq!((usage.spills, usage.restores, usage.leases), (3, 3, 0));
    setup.verify();
    Ok(())
}

#[test]
fn least_recently_used_buffer_is_evicted_first() -> Result<()> {
    let setup = setup(8 * MIB, 64 * MIB);
    let stream = setup.stream();
    let buffers: Vec<BufferId> =
        (0..8).map(|_| setup.create(MIB, stream)).collect::<Result<_>>()?;
    for index in [3, 0, 5] {
        drop(setup.residency.lease(buffers[index], stream)?);
    }
    // Removal from the middle must not change the order of the others.
    setup.residency.destroy(buffers[4], stream)?;
    let order: Vec<BufferId> = [1, 2, 6, 7, 3, 0, 5].map(|index: usize| buffers[index]).into();
    assert_eq!(setup.residency.resident_order()?, order);
    let lease = setup.residency.lease(buffers[2], stream)?;
    setup.create(4 * MIB, stream)?;
    let left: Vec<BufferId> = [1, 6, 7].map(|index: usize| buffers[index]).into();
    let spilled = setup.moves(Direction::Spilled);
    assert_eq!(spilled[..3], left, "the leased one is passed over");
    assert!(setup.residency.is_resident(buffers[2])?);
    drop(lease);
    setup.verify();
    Ok(())
}

#[test]
fn copies_wait_for_all_users_of_the_buffer() -> Result<()> {
    let setup = setup(4 * MIB, 16 * MIB);
    let (writer, evicter, reader) = (setup.stream(), setup.stream(), setup.stream());
    let contents = pattern(2, 3 * MIB);
    let buffer = setup.create(3 * MIB, writer)?;
    // Both pools grow before the measurement, since growth takes time.
    setup.residency.evict(buffer, writer)?;
    let lease = setup.residency.lease(buffer, writer)?;
    let wrong = setup.device.allocate_host(3 * MIB)?;
    let right = setup.device.allocate_host(3 * MIB)?;
    setup.device.write_host(wrong, &pattern(3, 3 * MIB))?;
    setup.device.write_host(right, &contents)?;
    for source in [wrong, wrong, wrong, right] {
        setup.device.copy(writer, source.into(), lease.address(), 3 * MIB)?;
    }
    drop(lease);
    // The writes are still queued when the other streams spill, reuse and restore.
    setup.residency.evict(buffer, evicter)?;
    assert_eq!(setup.device.query_stream(writer), Ok(false));
    let other = setup.create(4 * MIB, reader)?;
    let lease = setup.residency.lease(other, reader)?;
    setup.device.fill(reader, lease.address(), 0, 4 * MIB)?;
    drop(lease);
    setup.residency.destroy(other, evicter)?;
    assert!(setup.read(buffer, reader)? == contents);
    assert!(setup.read(buffer, writer)? == contents);
    setup.verify();
    Ok(())
}

#[test]
fn leases_pin_buffers_and_end_on_every_path() -> Result<()> {
    let setup = setup(2 * MIB, 16 * MIB);
    let stream = setup.stream();
    let buffer = setup.create(2 * MIB, stream)?;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _lease = setup.residency.lease(buffer, stream).expect("resident");
        let code = |outcome: Result<()>| outcome.expect_err("in use").code();
        assert_eq!(code(setup.residency.evict(buffer, stream)), "buffer_in_use");
        assert_eq!(code(setup.residency.destroy(buffer, stream)), "buffer_in_use");
        let full = setup.create(MIB, stream).map(|_| ());
        assert_eq!(code(full), "out_of_memory");
        panic!("a task fails");
    }));
    assert!(panicked.is_err());
    assert_eq!(setup.residency.usage()?.leases, 0);
    setup.residency.evict(buffer, stream)?;
    setup.residency.destroy(buffer, stream)?;
    let gone = setup.residency.lease(buffer, stream).map(|_| ());
    assert_eq!(gone.map_err(|error| error.code()), Err("unknown_buffer"));
    let usage = (setup.memory.usage()?.live, setup.host.usage()?.live);
    assert_eq!(usage, (0, 0));
    Ok(())
}

#[test]
fn failed_copy_keeps_the_valid_copy_and_leaks_nothing() -> Result<()> {
    let setup = setup(2 * MIB, 16 * MIB);
    let stream = setup.stream();
    let contents = pattern(5, 2 * MIB);
    let buffer = setup.create(2 * MIB, stream)?;
    setup.write(buffer, &contents, stream)?;
    let fail_next_copy = || {
        let occurrence = setup.device.calls(Operation::Copy)? + 1;
        setup.device.inject(Fault {
            operation: Operation::Copy,
            occurrence,
            moment: FaultMoment::AtCall,
        })
    };

    fail_next_copy()?;
    let spill = setup.residency.evict(buffer, stream);
    assert_eq!(spill.map_err(|error| error.code()), Err("injected"));
    assert!(setup.residency.is_resident(buffer)?);
    assert_eq!(setup.host.usage()?.live, 0);

    setup.residency.evict(buffer, stream)?;
    fail_next_copy()?;
    let restore = setup.residency.lease(buffer, stream).map(|_| ());
    assert_eq!(restore.map_err(|error| error.code()), Err("injected"));
    assert_eq!(setup.memory.usage()?.live, 0);
    assert!(setup.read(buffer, stream)? == contents);
    setup.verify();
    Ok(())
}

#[test]
fn full_host_memory_fails_and_changes_nothing() -> Result<()> {
    let setup = setup(4 * MIB, MIB);
    let stream = setup.stream();
    let contents = pattern(6, 3 * MIB);
    let buffer = setup.create(3 * MIB, stream)?;
    setup.write(buffer, &contents, stream)?;
    let refused = setup.create(2 * MIB, stream).expect_err("no room");
    assert!(refused.to_string().starts_with("out of host memory"), "{refused}");
    assert!(setup.read(buffer, stream)? == contents);
    Ok(())
}

#[test]
fn exceeded_quota_evicts_its_tenant_only() -> Result<()> {
    let setup = setup(8 * MIB, 16 * MIB);
    let stream = setup.stream();
    let tenant = setup.memory.add_tenant("bounded", 2 * MIB)?;
    let other = setup.create(2 * MIB, stream)?;
    let request = Request::new(MIB, stream).for_tenant(tenant);
    let first = setup.residency.create(&request)?;
    let _second = setup.residency.create(&request)?;
    let _third = setup.residency.create(&request)?;
    assert_eq!(setup.moves(Direction::Spilled), [first]);
    assert!(setup.residency.is_resident(other)?, "though it is older");
    Ok(())
}

#[test]
fn failure_callback_evicts_buffers_for_allocations() -> Result<()> {
    let setup = setup(4 * MIB, 16 * MIB);
    let stream = setup.stream();
    let buffers: Vec<BufferId> =
        (0..4).map(|_| setup.create(MIB, stream)).collect::<Result<_>>()?;
    let residency = setup.residency.clone();
    let resource = FailureCallbackAdaptor::new(setup.memory.clone(), 10, move |failure| {
        match residency.evict_for(failure.error, failure.request.stream, failure.request.tenant) {
            Ok(true) => Decision::Retry,
            _ => Decision::GiveUp,
        }
    });
    let allocation = resource.allocate(&Request::new(2 * MIB, stream))?;
    assert_eq!(setup.moves(Direction::Spilled), buffers[..2]);
    let too_much = resource.allocate(&Request::new(5 * MIB, stream));
    assert_eq!(too_much.map_err(|error| error.code()), Err("out_of_memory"));
    resource.deallocate(allocation, stream)
}

#[test]
fn host_order_and_captured_streams_are_handled() -> Result<()> {
    let setup = setup(4 * MIB, 16 * MIB);
    let stream = setup.stream();
    let contents = pattern(7, 2 * MIB);
    let buffer = setup.create(2 * MIB, StreamId::HOST)?;
    setup.write(buffer, &contents, stream)?;
    setup.residency.evict(buffer, StreamId::HOST)?;
    drop(setup.residency.lease(buffer, StreamId::HOST)?);
    assert!(setup.residency.is_resident(buffer)?);
    assert_eq!(setup.device.query_stream(setup.device.default_stream()), Ok(true));
    assert!(setup.read(buffer, stream)? == contents);

    setup.residency.evict(buffer, stream)?;
    setup.device.begin_capture(stream)?;
    let captured = setup.residency.lease(buffer, stream).map(|_| ());
    assert_eq!(captured.map_err(|error| error.code()), Err("capturing"));
    setup.device.end_capture(stream)?;
    assert!(setup.read(buffer, stream)? == contents);
    Ok(())
}

/// Random use of many buffers on several streams, checked against a list in LRU order.
fn run_against_model(
    setup: &Setup,
    sizes: &[u64],
    steps: impl Iterator<Item = (usize, usize, bool)>,
) -> Result<u64> {
    let streams: Vec<StreamId> = (0..3).map(|_| setup.stream()).collect();
    let mut buffers = Vec::new();
    let mut seeds: Vec<u64> = Vec::new();
    let mut order: Vec<usize> = Vec::new();
    for (index, bytes) in sizes.iter().enumerate() {
        let buffer = setup.create(*bytes, streams[index % 3])?;
        seeds.push(index as u64 + 100);
        setup.write_now(buffer, &pattern(seeds[index], *bytes), streams[index % 3])?;
        buffers.push(buffer);
        order.push(index);
    }
    for (step, (choice, lane, writes)) in steps.enumerate() {
        let (index, stream) = (choice % buffers.len(), streams[lane % 3]);
        if writes {
            seeds[index] = step as u64 + 10_000;
            setup.write_now(buffers[index], &pattern(seeds[index], sizes[index]), stream)?;
        } else {
            let contents = setup.read(buffers[index], stream)?;
            assert!(contents == pattern(seeds[index], sizes[index]), "step {step}: buffer {index}");
        }
        order.retain(|other| *other != index);
        order.push(index);
        let resident: Vec<BufferId> = setup.residency.resident_order()?;
        let expected: Vec<BufferId> = order
            .iter()
            .map(|index| buffers[*index])
            .filter(|buffer| resident.contains(buffer))
            .collect();
        assert_eq!(resident, expected, "step {step}: order of use");
    }
    for buffer in buffers {
        setup.residency.destroy(buffer, streams[0])?;
    }
    let left = (setup.memory.usage()?.live, setup.host.usage()?.live);
    assert_eq!(left, (0, 0), "left behind");
    setup.verify();
    let movements = setup.residency.take_movements()?;
    Ok(movements.iter().map(|movement| movement.bytes).sum())
}

/// With buffers of one size, victims are exactly the least recently used.
#[test]
fn victims_follow_lru_order() -> Result<()> {
    let setup = setup(8 * MIB, 64 * MIB);
    let stream = setup.stream();
    let buffers: Vec<BufferId> =
        (0..24).map(|_| setup.create(MIB, stream)).collect::<Result<_>>()?;
    let mut order: Vec<usize> = (0..24).collect();
    setup.residency.take_movements()?;
    let mut value = 12345_u64;
    for step in 0..2000 {
        value = value.wrapping_mul(6364136223846793005).wrapping_add(1);
        let index = (value >> 33) as usize % 24;
        let expected_victim =
            (!setup.residency.is_resident(buffers[index])?).then(|| order[order.len() - 8]);
        drop(setup.residency.lease(buffers[index], stream)?);
        order.retain(|other| *other != index);
        order.push(index);
        let victims: Vec<BufferId> = setup.moves(Direction::Spilled);
        let expected: Vec<BufferId> =
            expected_victim.map(|victim| buffers[victim]).into_iter().collect();
        assert_eq!(victims, expected, "step {step}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_use_preserves_bytes_and_lru_order(
        sizes in prop::collection::vec(1_u64..300_000, 4..14),
        steps in prop::collection::vec(any::<(usize, usize, bool)>(), 1..60),
    ) {
        let setup = setup(MIB, 16 * MIB);
        run_against_model(&setup, &sizes, steps.into_iter()).expect("no shortage");
    }
}

#[test]
#[ignore = "moves gigabytes and takes over 5 s; run with `cargo test -p assay-runtime --test residency -- --ignored`"]
fn gigabytes_are_restored_exactly() -> Result<()> {
    let setup = setup(1 << 30, 3 << 30);
    let sizes: Vec<u64> = (0..48).map(|index| 40 * MIB + index * 1_000_003 % (24 * MIB)).collect();
    let mut value = 99_u64;
    let steps = (0..80).map(|_| {
        value = value.wrapping_mul(6364136223846793005).wrapping_add(1);
        ((value >> 33) as usize, (value >> 20) as usize, value >> 60 < 4)
    });
    let moved = run_against_model(&setup, &sizes, steps)?;
    let bytes: u64 = sizes.iter().sum();
    println!("{bytes} bytes of buffers, {moved} bytes spilled and restored");
    assert!(bytes > 2 << 30 && moved > 4 << 30);
    Ok(())
}

#[test]
fn adopted_memory_is_evictable_and_keeps_its_bytes() {
    let Setup { device, memory, residency, .. } = setup(8 * MIB, 8 * MIB);
    let stream = device.default_stream();
    let request = Request::new(1 << 20, stream);
    let buffer = Buffer::new(memory.clone(), &request).expect("room");
    let address = buffer.address().expect("has bytes");
    device.fill(stream, address, 7, 1 << 20).expect("queued");
    let allocation = buffer.release().expect("still there");
    let id = residency.adopt(&request, allocation).expect("sound");
    residency.evict(id, stream).expect("unused");
    assert_eq!(memory.usage().expect("sound").live, 0);
    let lease = residency.lease(id, stream).expect("room");
    device.synchronize_stream(stream).expect("sound");
    let mut bytes = vec![0; 1 << 20];
    device.peek(lease.address(), &mut bytes).expect("allocated");
    assert!(bytes.iter().all(|byte| *byte == 7));
    drop(lease);
    residency.destroy(id, stream).expect("unused");
    assert_eq!(memory.usage().expect("sound").live, 0);
}

#[test]
fn forgotten_stream_is_not_waited_for() {
    let Setup { device, residency, .. } = setup(8 * MIB, 8 * MIB);
    let stream = device.create_stream(StreamPriority::Normal).expect("streams");
    let id = residency.create(&Request::new(MIB, device.default_stream())).expect("room");
    drop(residency.lease(id, stream).expect("here"));
    device.synchronize_stream(stream).expect("sound");
    residency.forget_stream(stream).expect("sound");
    device.destroy_stream(stream).expect("known");
    residency.evict(id, device.default_stream()).expect("nothing uses it");
    assert!(!residency.is_resident(id).expect("known"));
}
