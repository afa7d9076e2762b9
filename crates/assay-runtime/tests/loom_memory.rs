//! Loom models of threads that share a pool or a residency.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p assay-runtime --test loom_memory`.
#![cfg(loom)]

use assay_runtime::backend::{Backend, Space, StreamId};
use assay_runtime::memory::adaptors::{LimitingAdaptor, StatisticsAdaptor};
use assay_runtime::memory::{MemoryResource, Pool, PoolOptions, Request, Residency};
use assay_runtime::sim::{Contents, SimBackend, SimOptions};
use loom::thread;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Reaches every order of the critical sections in bounded time.
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn device() -> Arc<SimBackend> {
    let options = SimOptions { contents: Contents::Dropped, ..SimOptions::default() };
    Arc::new(SimBackend::new(options).expect("valid options"))
}

fn pool(device: &Arc<SimBackend>, space: Space, capacity_bytes: u64) -> Arc<Pool> {
    let options = PoolOptions {
        slab_bytes: capacity_bytes,
        expected_blocks: 16,
        ..PoolOptions::new(space, capacity_bytes)
    };
    Arc::new(Pool::new(device.clone(), options).expect("valid options"))
}

/// Two threads find the pool empty: one slab is allocated, and their blocks are disjoint.
#[test]
fn pool_grows_once_and_blocks_are_disjoint() {
    explore(|| {
        let device = device();
        let pool = pool(&device, Space::Device, 8 * MIB);
        let stream = device.default_stream();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.allocate(&Request::new(3 * MIB, stream)))
        };
        let first = pool.allocate(&Request::new(3 * MIB, stream)).expect("fits");
        let second = other.join().expect("no panic").expect("fits");
        let apart = first.address().value().abs_diff(second.address().value());
        assert!(apart >= 3 * MIB);
        assert_eq!(pool.statistics().expect("statistics").slabs_allocated, 1);
        pool.deallocate(first, stream).expect("live");
        pool.deallocate(second, stream).expect("live");
        pool.verify().expect("consistent");
    });
}

/// One thread frees what the other needs, on another stream: the other gets it or fails.
#[test]
fn free_races_with_an_allocation_of_the_same_memory() {
    explore(|| {
        let device = device();
        let pool = pool(&device, Space::Device, 4 * MIB);
        let stream = device.default_stream();
        let whole = pool.allocate(&Request::new(4 * MIB, stream)).expect("fits");
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.deallocate(whole, stream))
        };
        let got = pool.allocate(&Request::new(4 * MIB, StreamId::HOST));
        other.join().expect("no panic").expect("live");
        match got {
            Ok(allocation) => {
                assert_eq!(allocation.address(), whole.address());
                pool.deallocate(allocation, StreamId::HOST).expect("live");
            }
            Err(error) => assert_eq!(error.code(), "out_of_memory"),
        }
        pool.verify().expect("consistent");
        assert_eq!(pool.usage().expect("usage").allocated_bytes, 0);
    });
}

/// The same allocation freed by two threads: exactly one succeeds.
#[test]
fn exactly_one_of_two_frees_succeeds() {
    explore(|| {
        let device = device();
        let pool = pool(&device, Space::Device, 4 * MIB);
        let stream = device.default_stream();
        let allocation = pool.allocate(&Request::new(1000, stream)).expect("fits");
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.deallocate(allocation, stream).is_ok())
        };
        let mine = pool.deallocate(allocation, stream).is_ok();
        let theirs = other.join().expect("no panic");
        assert!(mine != theirs);
        pool.verify().expect("consistent");
    });
}

/// A reservation and a request compete for the same bytes: never both.
#[test]
fn reservation_is_never_violated() {
    explore(|| {
        let device = device();
        let pool = pool(&device, Space::Device, 4 * MIB);
        let stream = device.default_stream();
        let tenant = pool.add_tenant("reserved", 4 * MIB).expect("added");
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.reserve(tenant, 3 * MIB).ok())
        };
        let allocation = pool.allocate(&Request::new(2 * MIB, stream)).ok();
        let reservation = other.join().expect("no panic");
        assert!(allocation.is_some() != reservation.is_some());
        drop(reservation);
        let usage = pool.tenant_usage(tenant).expect("known");
        assert_eq!(usage.reserved_bytes, 0);
        pool.verify().expect("consistent");
    });
}

/// The limit is never exceeded, and failed requests leave no pending bytes.
#[test]
fn limit_is_never_exceeded() {
    explore(|| {
        let device = device();
        let inner = StatisticsAdaptor::new(pool(&device, Space::Device, 8 * MIB));
        let resource = Arc::new(LimitingAdaptor::new(inner, 3 * MIB));
        let stream = device.default_stream();
        let attempt = move |resource: &LimitingAdaptor<StatisticsAdaptor<Arc<Pool>>>| {
            if let Ok(allocation) = resource.allocate(&Request::new(2 * MIB, stream)) {
                resource.deallocate(allocation, stream).expect("live");
            }
        };
        let other = {
            let resource = resource.clone();
            thread::spawn(move || attempt(&resource))
        };
        attempt(&resource);
        other.join().expect("no panic");
        assert_eq!(resource.used_bytes(), 0);
        let counters = resource.inner().counters();
        assert_eq!(counters.peak_bytes, 2 * MIB, "one at a time");
        assert_eq!(counters.bytes, 0);
    });
}

/// A lease races with an eviction: the second observes the first.
#[test]
fn leased_buffer_is_not_evicted() {
    explore(|| {
        let device = device();
        let (memory, host) =
            (pool(&device, Space::Device, 4 * MIB), pool(&device, Space::Host, 4 * MIB));
        let residency = Residency::new(device.clone(), memory.clone(), host.clone());
        let stream = device.default_stream();
        let buffer = residency.create(&Request::new(MIB, stream)).expect("fits");
        let other = {
            let residency = residency.clone();
            thread::spawn(move || residency.evict(buffer, stream))
        };
        {
            let _lease = residency.lease(buffer, stream).expect("there is room");
            assert!(residency.is_resident(buffer).expect("known"));
        }
        match other.join().expect("no panic") {
            Ok(()) => {}
            Err(error) => assert_eq!(error.code(), "buffer_in_use"),
        }
        residency.destroy(buffer, stream).expect("not in use");
        let left = [memory.usage(), host.usage()].map(|usage| usage.expect("usage").live);
        assert_eq!(left, [0, 0]);
    });
}
