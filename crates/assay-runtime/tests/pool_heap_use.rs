//! After warm-up the pool's fast path makes no heap allocation.

use assay_runtime::backend::{Backend, Space, StreamPriority};
use assay_runtime::memory::adaptors::{LimitingAdaptor, StatisticsAdaptor};
use assay_runtime::memory::{Allocation, MemoryResource, Pool, PoolOptions, Request, Result};
use assay_runtime::sim::{Contents, SimBackend, SimOptions};
use std::sync::Arc;

fn churn(
    resource: &dyn MemoryResource,
    streams: &[assay_runtime::backend::StreamId],
) -> Result<()> {
    let mut live: [Option<Allocation>; 64] = [None; 64];
    let mut value = 3_u64;
    for _ in 0..20_000 {
        value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let stream = streams[(value >> 60) as usize % streams.len()];
        let position = (value >> 40) as usize % live.len();
        if let Some(allocation) = live[position].take() {
            resource.deallocate(allocation, stream)?;
        }
        let largest = 1 << (8 + (value >> 50) % 12);
        let bytes = 1 + (value >> 20) % largest;
        live[position] = Some(resource.allocate(&Request::new(bytes, stream))?);
    }
    for allocation in live.into_iter().flatten() {
        resource.deallocate(allocation, streams[0])?;
    }
    Ok(())
}

#[test]
fn no_heap_allocation_after_warm_up() -> Result<()> {
    let device = Arc::new(SimBackend::new(SimOptions {
        contents: Contents::Dropped,
        ..SimOptions::default()
    })?);
    let streams = [device.default_stream(), device.create_stream(StreamPriority::Normal)?];
    let pool = Pool::new(device, PoolOptions::new(Space::Device, 1 << 30))?;
    let resource = LimitingAdaptor::new(StatisticsAdaptor::new(pool), 1 << 30);
    churn(&resource, &streams)?;
    let mut outcome = Ok(());
    let heap = allocation_counter::measure(|| outcome = churn(&resource, &streams));
    outcome?;
    assert_eq!(heap.count_total, 0, "{heap:?}");

    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1, "the counter counts");
    Ok(())
}
