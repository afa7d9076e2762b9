//! Replay of allocation logs is deterministic and distinguishes policies.

use assay_runtime::backend::{Backend, Space, StreamId, StreamPriority};
use assay_runtime::memory::adaptors::LoggingAdaptor;
use assay_runtime::memory::replay::{ReplayOptions, ReplayReport, replay};
use assay_runtime::memory::{
    Action, Allocation, AllocationLog, CrossStream, DirectResource, MemoryResource, Pool,
    PoolOptions, Record, Request, Result, TenantId,
};
use assay_runtime::sim::{SimBackend, SimOptions, SimProfile};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// The log of a loop on two streams, with buffers of mixed lifetimes.
fn recorded_log() -> Result<AllocationLog> {
    let device = Arc::new(SimBackend::new(SimOptions::default())?);
    let pool = Pool::new(device.clone(), PoolOptions::new(Space::Device, 256 * MIB))?;
    pool.add_tenant("guest", 64 * MIB)?;
    let resource = LoggingAdaptor::new(pool, device.virtual_clock().clone());
    let streams = [device.default_stream(), device.create_stream(StreamPriority::Normal)?];
    let mut value = 7_u64;
    let mut live: Vec<(Allocation, StreamId)> = Vec::new();
    for step in 0..4000_u64 {
        value = value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let stream = streams[(value >> 40) as usize % 2];
        let bytes = match (value >> 50) % 10 {
            0 => 0,
            1..7 => (value >> 20) % 20_000,
            7..9 => (value >> 20) % MIB,
            _ => (value >> 20) % (8 * MIB),
        };
        let tenant = TenantId(u32::from(step % 5 == 0));
        let request = Request::new(bytes, stream).for_tenant(tenant);
        if let Ok(allocation) = resource.allocate(&request) {
            live.push((allocation, stream));
        }
        while live.len() > 60 {
            let index = (value >> 30) as usize % live.len();
            let (allocation, stream) = live.swap_remove(index);
            resource.deallocate(allocation, stream)?;
        }
        device.virtual_clock().advance_ns(1_000);
    }
    resource.take_log()
}

fn options() -> ReplayOptions {
    ReplayOptions { profile: SimProfile::generic(), touch: true }
}

fn pool_policy(
    change: impl FnOnce(&mut PoolOptions),
) -> impl FnOnce(Arc<dyn Backend>) -> Result<Arc<dyn MemoryResource>> {
    let mut options = PoolOptions::new(Space::Device, 256 * MIB);
    change(&mut options);
    move |backend| {
        let pool = Pool::new(backend, options)?;
        pool.add_tenant("guest", 64 * MIB)?;
        Ok(Arc::new(pool))
    }
}

#[test]
fn replay_is_deterministic() -> Result<()> {
    let log = recorded_log()?;
    assert_eq!(log.tenants(), 2);
    let reread = AllocationLog::from_text(&log.to_text()).expect("own text");
    assert_eq!(reread, log);
    let reports: Vec<ReplayReport> = (0..4)
        .map(|round| {
            let log = if round % 2 == 0 { &log } else { &reread };
            replay(log, &options(), pool_policy(|_| {}))
        })
        .collect::<Result<_>>()?;
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:?}");
    let count = |action| log.records.iter().filter(|record| record.action == action).count();
    let report = reports[0];
    assert_eq!(
        report.allocations + report.refusals,
        (count(Action::Allocate) + count(Action::Refuse)) as u64
    );
    assert!(report.elapsed_ns > 0 && report.peak_requested_bytes > 0);
    Ok(())
}

#[test]
fn policies_differ_in_their_reports() -> Result<()> {
    let log = recorded_log()?;
    let pool = replay(&log, &options(), pool_policy(|_| {}))?;
    let patient = replay(
        &log,
        &options(),
        pool_policy(|options| options.cross_stream = CrossStream::WaitFirst),
    )?;
    let direct = replay(&log, &options(), |backend| {
        Ok(Arc::new(DirectResource::new(backend, Space::Device, 256 * MIB)))
    })?;
    let tight = replay(&log, &options(), pool_policy(|options| options.capacity_bytes = 24 * MIB))?;
    assert!(direct.device_allocations > 100 * pool.device_allocations);
    assert!(direct.elapsed_ns > pool.elapsed_ns, "freeing waits for the device");
    assert!(patient.stream_waits > pool.stream_waits);
    assert!(patient.peak_held_bytes <= pool.peak_held_bytes);
    assert!(direct.peak_held_bytes <= pool.peak_held_bytes, "a pool keeps more than it needs");
    assert_eq!(direct.peak_requested_bytes, pool.peak_requested_bytes);
    assert!(tight.refusals > pool.refusals && tight.skipped_frees > 0);
    assert!(tight.peak_held_bytes <= 24 * MIB);
    Ok(())
}

#[test]
fn malformed_log_is_rejected_by_line() {
    let header = "time_ns,action,stream,tenant,bytes,address\n";
    let table = [
        ("", "line 1: expected the header"),
        ("time,action\n", "line 1: expected the header"),
        ("1,allocate,0,0,5\n", "line 2: expected six fields, got \"1,allocate,0,0,5\""),
        ("x,allocate,0,0,5,9\n", "line 2: expected a whole number, got \"x\""),
        ("1,grab,0,0,5,9\n", "line 2: expected allocate, refuse or free, got \"grab\""),
        ("1,free,4294967296,0,5,9\n", "line 2: expected a whole number below 2^32"),
        ("1,free,0,0,5,9\n-1,free,0,0,5,9\n", "line 3: expected a whole number, got \"-1\""),
    ];
    for (index, (text, expected)) in table.iter().enumerate() {
        let text = match index {
            0 | 1 => (*text).to_owned(),
            _ => format!("{header}{text}"),
        };
        let message = AllocationLog::from_text(&text).expect_err("refused").to_string();
        assert!(message.contains(expected), "{message}");
    }
    let fine = AllocationLog::from_text(&format!("{header}1,free,4294967295,3,5,9\n"));
    let expected = Record {
        time_ns: 1,
        action: Action::Free,
        stream: StreamId::HOST,
        tenant: TenantId(3),
        bytes: 5,
        address: 9,
    };
    assert_eq!(fine.map(|log| log.records), Ok(vec![expected]));
}
