//! The behavior of each resource adaptor.

use assay_runtime::backend::{Backend, Operation, Space, StreamId};
use assay_runtime::memory::adaptors::{
    Counters, Decision, FailureCallbackAdaptor, LimitingAdaptor, LoggingAdaptor, StatisticsAdaptor,
    TrackingAdaptor,
};
use assay_runtime::memory::{
    Action, Allocation, MemoryError, MemoryResource, Pool, PoolOptions, Request, Result, TenantId,
    Usage,
};
use assay_runtime::sim::{Fault, FaultMoment, SimBackend, SimOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const MIB: u64 = 1 << 20;

fn device() -> Arc<SimBackend> {
    Arc::new(SimBackend::new(SimOptions::default()).expect("valid options"))
}

fn pool(device: &Arc<SimBackend>) -> Pool {
    let mut options = PoolOptions::new(Space::Device, 8 * MIB);
    options.slab_bytes = 8 * MIB;
    Pool::new(device.clone(), options).expect("valid options")
}

#[test]
fn statistics_count_bytes_and_allocations() -> Result<()> {
    let device = device();
    let resource = StatisticsAdaptor::new(pool(&device));
    let stream = device.default_stream();
    let first = resource.allocate(&Request::new(1000, stream))?;
    let second = resource.allocate(&Request::new(2000, stream))?;
    resource.allocate(&Request::new(0, stream))?;
    assert!(resource.allocate(&Request::new(9 * MIB, stream)).is_err());
    resource.deallocate(first, stream)?;
    assert!(resource.deallocate(first, stream).is_err());
    assert_eq!(
        resource.counters(),
        Counters {
            bytes: 2000,
            peak_bytes: 3000,
            total_bytes: 3000,
            allocations: 1,
            peak_allocations: 2,
            total_allocations: 2,
            failures: 1,
        }
    );
    resource.deallocate(second, stream)
}

#[test]
fn limit_is_enforced_and_failed_requests_are_not_counted() -> Result<()> {
    let device = device();
    let resource = LimitingAdaptor::new(pool(&device), 6 * MIB);
    let stream = device.default_stream();
    let held = resource.allocate(&Request::new(4 * MIB, stream))?;
    assert_eq!(
        resource.allocate(&Request::new(3 * MIB, stream)),
        Err(MemoryError::LimitExceeded { requested: 3 * MIB, used: 4 * MIB, limit: 6 * MIB })
    );
    // Fails upstream, not by the limit: the pending bytes must be subtracted.
    for tenant in [7, 8] {
        let unknown = Request::new(MIB, stream).for_tenant(TenantId(tenant));
        assert!(resource.allocate(&unknown).is_err());
        assert_eq!(resource.used_bytes(), 4 * MIB);
    }
    resource.deallocate(held, stream)?;
    assert!(resource.deallocate(held, stream).is_err());
    assert_eq!(resource.used_bytes(), 0);
    Ok(())
}

/// A resource in which allocation always panics.
struct Panicking(Pool);

impl MemoryResource for Panicking {
    fn space(&self) -> Space {
        self.0.space()
    }

    fn allocate(&self, _: &Request) -> Result<Allocation> {
        panic!("a bug below");
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.0.deallocate(allocation, stream)
    }

    fn usage(&self) -> Result<Usage> {
        self.0.usage()
    }
}

#[test]
fn panic_upstream_leaves_no_pending_bytes() {
    let device = device();
    let resource = LimitingAdaptor::new(Panicking(pool(&device)), 6 * MIB);
    let request = Request::new(MIB, device.default_stream());
    let outcome = catch_unwind(AssertUnwindSafe(|| resource.allocate(&request)));
    assert!(outcome.is_err());
    assert_eq!(resource.used_bytes(), 0);
}

#[test]
fn leaks_are_reported_by_call_site() -> Result<()> {
    let device = device();
    let resource = TrackingAdaptor::new(pool(&device));
    let stream = device.default_stream();
    let line = line!() + 2;
    for _ in 0..3 {
        resource.allocate(&Request::new(500, stream))?;
    }
    let freed = resource.allocate(&Request::new(9000, stream))?;
    let large = resource.allocate(&Request::new(5000, stream))?;
    resource.deallocate(freed, stream)?;
    let outstanding = resource.outstanding()?;
    let serials: Vec<u64> = outstanding.iter().map(|entry| entry.serial).collect();
    assert_eq!(serials, [1, 2, 3, 5]);
    assert_eq!(outstanding[3].allocation, large);
    let file = file!();
    let expected = format!(
        "{file}:{}: 5000 bytes in 1 allocations\n{file}:{line}: 1500 bytes in 3 allocations\n",
        line + 3
    );
    assert_eq!(resource.report()?, expected);
    Ok(())
}

#[test]
fn callback_runs_on_memory_pressure_only() -> Result<()> {
    let device = device();
    let stream = device.default_stream();
    let inner = Arc::new(pool(&device));
    let blocker = inner.allocate(&Request::new(8 * MIB, stream))?;
    let asked = Arc::new(AtomicU32::new(0));
    let (counter, freeing) = (asked.clone(), inner.clone());
    let resource = FailureCallbackAdaptor::new(inner.clone(), 4, move |failure| {
        counter.fetch_add(1, Ordering::Relaxed);
        assert_eq!(failure.request.bytes, MIB);
        assert!(failure.error.is_pressure());
        if failure.attempt == 3 {
            freeing.deallocate(blocker, stream).expect("held");
        }
        Decision::Retry
    });
    let request = Request::new(MIB, stream);
    resource.allocate(&request)?;
    assert_eq!(asked.swap(0, Ordering::Relaxed), 3);

    let unknown = request.for_tenant(TenantId(9));
    let code = |outcome: Result<Allocation>| outcome.expect_err("refused").code();
    assert_eq!(code(resource.allocate(&unknown)), "unknown_tenant");
    assert_eq!(asked.load(Ordering::Relaxed), 0);

    inner.allocate(&Request::new(7 * MIB, stream))?;
    let resource = FailureCallbackAdaptor::new(inner.clone(), 5, |_| Decision::Retry);
    let before = inner.statistics()?.failures;
    assert_eq!(code(resource.allocate(&request)), "out_of_memory");
    assert_eq!(inner.statistics()?.failures - before, 5, "attempts end");
    let resource = FailureCallbackAdaptor::new(inner, 5, |_| Decision::GiveUp);
    assert_eq!(code(resource.allocate(&request)), "out_of_memory");
    Ok(())
}

#[test]
fn log_records_calls_in_order() -> Result<()> {
    let device = device();
    let clock = device.virtual_clock().clone();
    let resource = LoggingAdaptor::new(pool(&device), clock.clone());
    let stream = device.default_stream();
    device.inject(Fault {
        operation: Operation::AllocateDevice,
        occurrence: 1,
        moment: FaultMoment::AtCall,
    })?;
    let tenant = TenantId::DEFAULT;
    assert!(resource.allocate(&Request::new(100, stream)).is_err());
    let allocation = resource.allocate(&Request::new(200, stream))?;
    clock.advance_ns(50);
    resource.deallocate(allocation, StreamId::HOST)?;
    assert!(resource.deallocate(allocation, stream).is_err());
    let log = resource.take_log()?;
    let actions: Vec<_> = log
        .records
        .iter()
        .map(|record| (record.action, record.stream, record.tenant, record.bytes))
        .collect();
    assert_eq!(
        actions,
        [
            (Action::Refuse, stream, tenant, 100),
            (Action::Allocate, stream, tenant, 200),
            (Action::Free, StreamId::HOST, tenant, 200),
        ]
    );
    let address = allocation.address().value();
    assert_eq!((log.records[1].address, log.records[2].address), (address, address));
    assert!(log.records[2].time_ns >= log.records[1].time_ns + 50);
    assert!(resource.take_log()?.records.is_empty());
    Ok(())
}
