//! Behavior of the pool beyond the memory contract.

use assay_runtime::backend::{Address, Backend, Operation, Space, StreamId, StreamPriority};
use assay_runtime::memory::{
    Allocation, Buffer, CrossStream, MemoryError, MemoryResource, Pool, PoolOptions, Request,
    Result, TenantId,
};
use assay_runtime::sim::{Fault, FaultMoment, SimBackend, SimOptions, SimProfile};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn device() -> Arc<SimBackend> {
    Arc::new(SimBackend::new(SimOptions::default()).expect("valid options"))
}

fn pool_of(device: &Arc<SimBackend>, change: impl FnOnce(&mut PoolOptions)) -> Arc<Pool> {
    let mut options = PoolOptions::new(Space::Device, 16 * MIB);
    options.slab_bytes = 16 * MIB;
    change(&mut options);
    Arc::new(Pool::new(device.clone(), options).expect("valid options"))
}

fn stream(device: &SimBackend) -> StreamId {
    device.create_stream(StreamPriority::Normal).expect("stream")
}

fn take(pool: &Pool, bytes: u64, stream: StreamId) -> Result<Allocation> {
    pool.allocate(&Request::new(bytes, stream))
}

/// Queues `times` slow copies into the memory, which still run at the next call.
fn keep_busy(device: &SimBackend, stream: StreamId, target: Address, times: u64) {
    let host = device.allocate_host(MIB).expect("host memory");
    for _ in 0..times {
        device.copy(stream, host.into(), target, MIB).expect("queued");
    }
}

#[test]
fn stream_reuses_its_freed_memory_without_events() -> Result<()> {
    for bytes in [1, 300, 5000, 40_000, 3 * MIB] {
        let device = device();
        let pool = pool_of(&device, |_| {});
        let stream = stream(&device);
        let first = take(&pool, bytes, stream)?;
        pool.deallocate(first, stream)?;
        let second = take(&pool, bytes, stream)?;
        assert_eq!(first.address(), second.address(), "{bytes} bytes");
        pool.deallocate(second, stream)?;
        assert_eq!(device.calls(Operation::RecordEvent), Ok(0));
        assert_eq!(device.calls(Operation::AllocateDevice), Ok(1));
        pool.verify()?;
    }
    Ok(())
}

#[test]
fn another_stream_waits_for_the_event() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let (first, second) = (stream(&device), stream(&device));
    let whole = take(&pool, 16 * MIB, first)?;
    keep_busy(&device, first, whole.address(), 10);
    pool.deallocate(whole, first)?;

    let again = take(&pool, 16 * MIB, second)?;
    assert_eq!(again.address(), whole.address());
    assert_eq!(pool.statistics()?.stream_waits, 1);
    // The second stream has no work queued, yet is not idle: it waits for the first.
    assert_eq!(device.query_stream(second), Ok(false));
    device.synchronize_stream(first)?;
    assert_eq!(device.query_stream(second), Ok(true));
    pool.verify()
}

#[test]
fn completed_memory_is_reused_without_a_wait() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let (first, second) = (stream(&device), stream(&device));
    let whole = take(&pool, 16 * MIB, first)?;
    keep_busy(&device, first, whole.address(), 3);
    pool.deallocate(whole, first)?;
    device.synchronize_stream(first)?;
    take(&pool, 16 * MIB, second)?;
    let statistics = pool.statistics()?;
    assert_eq!((statistics.stream_waits, statistics.completed_events), (0, 1));
    pool.verify()
}

#[test]
fn event_seals_only_blocks_freed_before_it() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let (first, second) = (stream(&device), stream(&device));
    let before = take(&pool, 7 * MIB, first)?;
    // Stays allocated, so that the two do not coalesce.
    take(&pool, 40_000, first)?;
    let after = take(&pool, 7 * MIB, first)?;
    let host = device.allocate_host(MIB)?;
    device.copy(first, host.into(), before.address(), MIB)?;
    pool.deallocate(before, first)?;
    assert_eq!(pool.trim()?, 0, "the event is recorded and has not passed");
    for _ in 0..10 {
        device.copy(first, host.into(), after.address(), MIB)?;
    }
    pool.deallocate(after, first)?;
    device.virtual_clock().advance_ns(60_000);

    let free = take(&pool, 7 * MIB, second)?;
    assert_eq!(free.address(), before.address());
    assert_eq!(device.query_stream(second), Ok(true), "it waits for nothing");
    let busy = take(&pool, 7 * MIB, second)?;
    assert_eq!(busy.address(), after.address());
    assert_eq!(device.query_stream(second), Ok(false), "it waits for the copies");
    assert_eq!(pool.statistics()?.stream_waits, 1);
    pool.verify()
}

#[test]
fn cross_stream_policies_grow_wait_or_fail() -> Result<()> {
    let table = [
        (CrossStream::GrowFirst, Ok((0, 2))),
        (CrossStream::WaitFirst, Ok((1, 1))),
        (CrossStream::Never, Ok((0, 2))),
    ];
    for (policy, expected) in table {
        let device = device();
        let pool = pool_of(&device, |options| {
            options.cross_stream = policy;
            options.slab_bytes = 8 * MIB;
        });
        let (first, second) = (stream(&device), stream(&device));
        let half = take(&pool, 8 * MIB, first)?;
        keep_busy(&device, first, half.address(), 10);
        pool.deallocate(half, first)?;
        let got = take(&pool, 8 * MIB, second).map(|_| ());
        let statistics = pool.statistics()?;
        let outcome = got.map(|()| (statistics.stream_waits, statistics.slabs_allocated));
        assert_eq!(outcome, expected, "{policy:?}");
        let third = take(&pool, 8 * MIB, second).map_err(|error| error.code());
        match policy {
            CrossStream::Never => assert_eq!(third, Err("out_of_memory")),
            _ => assert!(third.is_ok(), "{policy:?}"),
        }
        pool.verify()?;
    }
    Ok(())
}

#[test]
fn host_allocation_waits_for_the_event() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |options| options.space = Space::Host);
    let stream = stream(&device);
    let staging = take(&pool, 16 * MIB, StreamId::HOST)?;
    let target = device.allocate_device(16 * MIB)?;
    device.copy(stream, staging.address(), target.into(), 16 * MIB)?;
    pool.deallocate(staging, stream)?;
    let again = take(&pool, 16 * MIB, StreamId::HOST)?;
    assert_eq!(again.address(), staging.address());
    assert_eq!(device.query_stream(stream), Ok(true));
    assert_eq!(pool.statistics()?.host_waits, 1);
    pool.deallocate(again, StreamId::HOST)?;
    assert!(take(&pool, 16 * MIB, stream).is_ok(), "what the host freed is common at once");
    pool.verify()
}

#[test]
fn freed_neighbors_coalesce_in_any_order() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    for step in [1_usize, 3, 5, 7] {
        let blocks: Vec<Allocation> =
            (0..16).map(|_| take(&pool, MIB, stream)).collect::<Result<_>>()?;
        for index in 0..16 {
            pool.deallocate(blocks[index * step % 16], stream)?;
        }
        pool.verify()?;
        let whole = take(&pool, 16 * MIB, stream)?;
        pool.deallocate(whole, stream)?;
    }
    assert_eq!(device.calls(Operation::AllocateDevice), Ok(1));
    Ok(())
}

#[test]
fn cached_small_blocks_coalesce_for_a_large_request() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    let small: Vec<Allocation> =
        (0..6000).map(|index| take(&pool, 256 + index % 2000, stream)).collect::<Result<_>>()?;
    for allocation in small {
        pool.deallocate(allocation, stream)?;
    }
    assert!(take(&pool, 16 * MIB, stream).is_ok());
    pool.verify()
}

#[test]
fn best_fit_is_preferred() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    let sizes = [4 * MIB, 3 * MIB, 2 * MIB, 5 * MIB];
    let blocks: Vec<Allocation> = sizes
        .iter()
        .flat_map(|bytes| [*bytes, 40_000])
        .map(|bytes| take(&pool, bytes, stream))
        .collect::<Result<_>>()?;
    for index in [0, 2, 4, 6] {
        pool.deallocate(blocks[index], stream)?;
    }
    for (bytes, expected) in [(3 * MIB, 2), (5 * MIB, 6), (4 * MIB - 256, 0), (2 * MIB, 4)] {
        let got = take(&pool, bytes, stream)?;
        assert_eq!(got.address(), blocks[expected].address(), "{bytes} bytes");
    }
    Ok(())
}

#[test]
fn tenants_are_limited_by_their_quotas() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    let tenant = pool.add_tenant("small", 4 * MIB)?;
    let request = |bytes| Request::new(bytes, stream).for_tenant(tenant);
    let held = pool.allocate(&request(3 * MIB))?;
    assert_eq!(
        pool.allocate(&request(MIB + 1)),
        Err(MemoryError::QuotaExceeded {
            tenant: "small".to_owned(),
            requested: MIB + 256,
            used: 3 * MIB,
            limit: 4 * MIB,
        })
    );
    assert!(take(&pool, 12 * MIB, stream).is_ok(), "others are not affected");
    assert!(pool.allocate(&request(MIB)).is_ok());
    pool.deallocate(held, stream)?;
    let usage = pool.tenant_usage(tenant)?;
    assert_eq!((usage.used_bytes, usage.peak_bytes), (MIB, 4 * MIB));
    let unknown = Request::new(1, stream).for_tenant(TenantId(9));
    assert_eq!(pool.allocate(&unknown).map_err(|error| error.code()), Err("unknown_tenant"));
    pool.verify()
}

#[test]
fn reservations_are_honored_and_released_on_every_path() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    let tenant = pool.add_tenant("reserved", 16 * MIB)?;

    let reservation = pool.reserve(tenant, 10 * MIB)?;
    let refused = take(&pool, 7 * MIB, stream).map_err(|error| error.code());
    assert_eq!(refused, Err("reserved"));
    let own = pool.allocate(&Request::new(10 * MIB, stream).for_tenant(tenant))?;
    let other = take(&pool, 6 * MIB, stream)?;
    drop(reservation);
    assert_eq!(pool.tenant_usage(tenant)?.reserved_bytes, 0);
    pool.deallocate(own, stream)?;
    pool.deallocate(other, stream)?;

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _reservation = pool.reserve(tenant, 16 * MIB).expect("free");
        panic!("a task fails");
    }));
    assert!(panicked.is_err());
    assert_eq!(pool.tenant_usage(tenant)?.reserved_bytes, 0);
    for _ in 0..100 {
        let refused = pool.reserve(tenant, 17 * MIB).map(|_| ());
        assert!(refused.is_err());
    }
    assert!(take(&pool, 16 * MIB, stream).is_ok(), "nothing stays reserved");
    pool.verify()
}

#[test]
fn memory_of_a_forgotten_stream_is_reusable_by_any_stream() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |options| options.cross_stream = CrossStream::WaitFirst);
    let keeper = stream(&device);
    for round in 0..300 {
        let passing = stream(&device);
        let first = take(&pool, 8 * MIB, passing)?;
        let second = take(&pool, 8 * MIB, passing)?;
        keep_busy(&device, passing, first.address(), 1);
        pool.deallocate(first, passing)?;
        pool.forget_stream(passing)?;
        device.destroy_stream(passing)?;
        // Freed after its stream was destroyed, as garbage collection does.
        pool.deallocate(second, passing)?;
        let whole = take(&pool, 16 * MIB, keeper)?;
        pool.deallocate(whole, keeper)?;
        if round % 2 == 0 {
            device.synchronize_stream(keeper)?;
        }
        pool.verify()?;
    }
    Ok(())
}

#[test]
fn capturing_stream_is_not_part_of_event_waits() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let (captured, other) = (stream(&device), stream(&device));
    let half = take(&pool, 8 * MIB, captured)?;
    pool.deallocate(half, captured)?;
    let rest = take(&pool, 8 * MIB, other)?;
    keep_busy(&device, other, rest.address(), 4);
    pool.deallocate(rest, other)?;

    device.begin_capture(captured)?;
    let out = take(&pool, 16 * MIB, captured).map_err(|error| error.code());
    assert_eq!(out, Err("out_of_memory"));
    let out = take(&pool, 16 * MIB, other).map_err(|error| error.code());
    assert_eq!(out, Err("out_of_memory"));
    assert!(take(&pool, 8 * MIB, captured).is_ok(), "its own memory is there");
    let forgotten = pool.forget_stream(captured).map_err(|error| error.code());
    assert_eq!(forgotten, Err("capturing"));
    device.end_capture(captured)?;
    pool.verify()
}

#[test]
fn memory_of_a_failed_stream_is_reclaimed() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let (failing, other) = (stream(&device), stream(&device));
    device.inject(Fault {
        operation: Operation::Fill,
        occurrence: 1,
        moment: FaultMoment::OnDevice,
    })?;
    let whole = take(&pool, 16 * MIB, failing)?;
    device.fill(failing, whole.address(), 1, MIB)?;
    assert!(device.synchronize_stream(failing).is_err());
    pool.deallocate(whole, failing)?;
    assert!(take(&pool, 16 * MIB, other).is_ok());
    pool.verify()
}

#[test]
fn failed_device_call_leaves_the_pool_usable() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |options| options.slab_bytes = 4 * MIB);
    let stream = stream(&device);
    device.inject(Fault {
        operation: Operation::AllocateDevice,
        occurrence: 2,
        moment: FaultMoment::AtCall,
    })?;
    let first = take(&pool, 4 * MIB, stream)?;
    let second = take(&pool, 4 * MIB, stream).map_err(|error| error.code());
    assert_eq!(second, Err("injected"));
    assert!(take(&pool, 4 * MIB, stream).is_ok());
    pool.deallocate(first, stream)?;
    assert_eq!(pool.statistics()?.failures, 1);
    assert_eq!(pool.usage()?.live, 1);
    pool.verify()
}

#[test]
fn device_smaller_than_the_capacity_is_used_completely() -> Result<()> {
    let mut profile = SimProfile::generic();
    profile.device_memory.capacity_bytes = 10 * MIB;
    let device = Arc::new(SimBackend::new(SimOptions { profile, ..SimOptions::default() })?);
    let pool = pool_of(&device, |options| options.slab_bytes = 8 * MIB);
    let stream = stream(&device);
    let sizes = [8 * MIB, MIB, MIB, MIB];
    let outcomes: Vec<_> = sizes
        .iter()
        .map(|bytes| take(&pool, *bytes, stream).map_err(|error| error.code()))
        .map(|outcome| outcome.map(|_| ()))
        .collect();
    assert_eq!(outcomes, [Ok(()), Ok(()), Ok(()), Err("out_of_memory")]);
    pool.verify()
}

#[test]
fn trim_returns_unused_slabs() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |options| options.slab_bytes = 4 * MIB);
    let stream = stream(&device);
    let blocks: Vec<Allocation> =
        (0..4).map(|_| take(&pool, 4 * MIB, stream)).collect::<Result<_>>()?;
    for index in [0, 2, 3] {
        pool.deallocate(blocks[index], stream)?;
    }
    let small = take(&pool, 100, stream)?;
    assert_eq!(pool.trim()?, 8 * MIB, "one slab is used, one holds a small block");
    pool.deallocate(small, stream)?;
    assert_eq!(pool.trim()?, 4 * MIB);
    assert_eq!(device.used_bytes(Space::Device), Ok(4 * MIB));
    assert_eq!(pool.usage()?.held_bytes, 4 * MIB);
    pool.verify()?;
    assert!(take(&pool, 12 * MIB, stream).is_ok(), "it can grow again");
    Ok(())
}

#[test]
fn trim_waits_for_the_work_before_frees() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |options| options.slab_bytes = 4 * MIB);
    let stream = stream(&device);
    let block = take(&pool, 4 * MIB, stream)?;
    keep_busy(&device, stream, block.address(), 10);
    pool.deallocate(block, stream)?;
    assert_eq!(pool.trim()?, 4 * MIB);
    assert_eq!(device.used_bytes(Space::Device), Ok(0));
    pool.verify()
}

#[test]
fn buffer_is_freed_on_drop_in_stream_order() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    let buffer = Buffer::new(pool.clone(), &Request::new(1000, stream))?;
    assert_eq!((buffer.bytes(), buffer.stream()), (1000, stream));
    let address = buffer.address();
    drop(buffer);
    assert_eq!(pool.usage()?.live, 0);
    let again = take(&pool, 1000, stream)?;
    assert_eq!(Some(again.address()), address);
    let empty = Buffer::new(pool.clone(), &Request::new(0, stream))?;
    assert_eq!(empty.address(), None);
    empty.free()?;
    pool.verify()
}

#[test]
fn errors_state_expected_and_got() -> Result<()> {
    let device = device();
    let pool = pool_of(&device, |_| {});
    let stream = stream(&device);
    take(&pool, 10 * MIB, stream)?;
    let message = |outcome: Result<Allocation>| outcome.expect_err("refused").to_string();
    assert_eq!(
        message(take(&pool, 7 * MIB, stream)),
        "out of device memory in allocate: expected at most 6291456 contiguous bytes, got a \
         request for 7340032 (10485760 of 16777216 allocated)\nhint: free or evict buffers, or \
         raise the pool's capacity"
    );
    let tenant = pool.add_tenant("quiet", 1024)?;
    assert_eq!(
        message(pool.allocate(&Request::new(2000, stream).for_tenant(tenant))),
        "quota of tenant \"quiet\" exceeded in allocate: expected at most 1024 bytes, got 2048 (0 \
         of 1024 used)\nhint: free buffers of this tenant or raise its limit"
    );
    let invalid = Pool::new(device.clone(), PoolOptions::new(Space::Device, 255)).map(|_| ());
    assert_eq!(
        invalid.expect_err("refused").to_string(),
        "invalid option capacity_bytes: expected at least 256, got 255"
    );
    Ok(())
}
