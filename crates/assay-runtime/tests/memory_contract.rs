//! The memory contract on every resource, and its detection of violations.

use assay_runtime::backend::{Backend, Space, StreamId};
use assay_runtime::clock::VirtualClock;
use assay_runtime::memory::adaptors::{
    Decision, FailureCallbackAdaptor, LimitingAdaptor, LoggingAdaptor, StatisticsAdaptor,
    TrackingAdaptor,
};
use assay_runtime::memory::contract::{MIN_CAPACITY_BYTES, check};
use assay_runtime::memory::{
    Allocation, CrossStream, DirectResource, MemoryResource, Pool, PoolOptions, Request, Result,
    Usage,
};
use assay_runtime::sim::{SimBackend, SimOptions};
use std::sync::{Arc, Mutex};

const CAPACITY: u64 = 24 << 20;

fn device() -> Arc<SimBackend> {
    Arc::new(SimBackend::new(SimOptions::default()).expect("valid options"))
}

fn pool_with(
    backend: Arc<dyn Backend>,
    space: Space,
    change: impl FnOnce(&mut PoolOptions),
) -> Pool {
    let mut options = PoolOptions::new(space, CAPACITY);
    options.slab_bytes = 8 << 20;
    change(&mut options);
    Pool::new(backend, options).expect("valid options")
}

fn pool(backend: Arc<dyn Backend>) -> Pool {
    pool_with(backend, Space::Device, |_| {})
}

type Make = fn(Arc<dyn Backend>) -> Arc<dyn MemoryResource>;

#[test]
fn every_resource_passes_the_contract() {
    let table: [(&str, Make); 14] = [
        ("direct", |b| Arc::new(DirectResource::new(b, Space::Device, CAPACITY))),
        ("direct host", |b| Arc::new(DirectResource::new(b, Space::Host, CAPACITY))),
        ("pool", |b| Arc::new(pool(b))),
        ("pinned host pool", |b| Arc::new(pool_with(b, Space::Host, |_| {}))),
        ("pool that waits first", |b| {
            Arc::new(pool_with(b, Space::Device, |options| {
                options.cross_stream = CrossStream::WaitFirst;
            }))
        }),
        ("pool without size classes", |b| {
            Arc::new(pool_with(b, Space::Device, |options| {
                options.small_limit_bytes = 0;
            }))
        }),
        ("pool of one slab", |b| {
            Arc::new(pool_with(b, Space::Device, |options| {
                options.slab_bytes = CAPACITY;
            }))
        }),
        ("pool of the least capacity", |b| {
            Arc::new(pool_with(b, Space::Device, |options| {
                options.capacity_bytes = MIN_CAPACITY_BYTES;
            }))
        }),
        ("statistics", |b| Arc::new(StatisticsAdaptor::new(pool(b)))),
        ("limiting", |b| Arc::new(LimitingAdaptor::new(pool(b), 20 << 20))),
        ("tracking", |b| Arc::new(TrackingAdaptor::new(pool(b)))),
        ("logging", |b| Arc::new(LoggingAdaptor::new(pool(b), VirtualClock::new()))),
        ("failure callback", |b| {
            Arc::new(FailureCallbackAdaptor::new(pool(b), 3, |_| Decision::Retry))
        }),
        ("all adaptors", |b| {
            let stack = LimitingAdaptor::new(
                TrackingAdaptor::new(StatisticsAdaptor::new(pool(b))),
                20 << 20,
            );
            let stack = FailureCallbackAdaptor::new(stack, 2, |_| Decision::GiveUp);
            Arc::new(LoggingAdaptor::new(stack, VirtualClock::new()))
        }),
    ];
    for (name, make) in table {
        let device = device();
        let backend: Arc<dyn Backend> = device.clone();
        let resource = make(backend.clone());
        if let Err(violation) = check(&backend, &*resource) {
            panic!("{name}: {violation}");
        }
        drop(resource);
        for space in [Space::Device, Space::Host] {
            assert_eq!(device.used_bytes(space), Ok(0), "{name} left {space} memory");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Defect {
    SameBlockTwice,
    DoubleFreeAccepted,
    FreesLeak,
    StreamsIgnored,
    ForeignAccepted,
}

/// A pool that violates one clause.
struct Broken {
    inner: Pool,
    defect: Defect,
    last: Mutex<Option<Allocation>>,
}

impl MemoryResource for Broken {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let mut request = *request;
        if self.defect == Defect::StreamsIgnored && request.stream.0 < 1000 {
            request.stream = StreamId::HOST;
        }
        let allocation = self.inner.allocate(&request)?;
        let mut last = self.last.lock().expect("not poisoned");
        match *last {
            Some(earlier) if self.defect == Defect::SameBlockTwice && earlier.bytes() > 30_000 => {
                Ok(earlier)
            }
            _ => {
                *last = Some(allocation);
                Ok(allocation)
            }
        }
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        match self.defect {
            Defect::FreesLeak if allocation.bytes() == 1 << 20 => {
                let _ = self.inner.allocate(&Request::new(1 << 20, stream));
                self.inner.deallocate(allocation, stream)
            }
            Defect::StreamsIgnored => self.inner.deallocate(allocation, StreamId::HOST),
            Defect::DoubleFreeAccepted | Defect::ForeignAccepted => {
                match self.inner.deallocate(allocation, stream) {
                    Err(error)
                        if (error.code() == "already_freed")
                            == (self.defect == Defect::DoubleFreeAccepted) =>
                    {
                        Ok(())
                    }
                    outcome => outcome,
                }
            }
            _ => self.inner.deallocate(allocation, stream),
        }
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}

#[test]
fn contract_detects_each_injected_violation() {
    let table = [
        (Defect::SameBlockTwice, "allocations are"),
        (Defect::DoubleFreeAccepted, "a double free fails"),
        (Defect::ForeignAccepted, "a free in another resource fails"),
        (Defect::FreesLeak, "freed memory can be allocated again"),
        (Defect::StreamsIgnored, "reuse between streams is ordered"),
    ];
    for (defect, clause) in table {
        let backend: Arc<dyn Backend> = device();
        let broken = Broken { inner: pool(backend.clone()), defect, last: Mutex::new(None) };
        let violation = check(&backend, &broken).expect_err("a violation");
        assert!(violation.clause.starts_with(clause), "{defect:?}: {violation}");
    }
}
