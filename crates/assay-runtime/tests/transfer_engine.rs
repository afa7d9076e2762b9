//! Transfers on the simulated device: every byte, by priority, through failures.

use assay_runtime::backend::*;
use assay_runtime::dispatch::{Recorder, WorkKind};
use assay_runtime::scheduler::*;
use assay_runtime::sim::*;
use assay_runtime::transfer::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Chunks of this size are in flight long enough to be observed.
const MB: u64 = 1_000_000;

struct World {
    device: Arc<SimBackend>,
    engine: TransferEngine,
    recorder: Arc<Recorder>,
}

fn world_with(slot_bytes: u64, slots: u32, change: impl FnOnce(&mut TransferOptions)) -> World {
    let device = Arc::new(
        SimBackend::new(SimOptions { record_timeline: true, ..SimOptions::default() })
            .expect("valid"),
    );
    let mut options = TransferOptions { slot_bytes, slots, ..TransferOptions::default() };
    change(&mut options);
    let recorder = Arc::new(Recorder::new(4_096));
    let engine = TransferEngine::new(device.clone(), options, Arc::clone(&recorder));
    World { device, engine: engine.expect("valid"), recorder }
}

fn world(slot_bytes: u64, slots: u32) -> World {
    world_with(slot_bytes, slots, |_| {})
}

fn pattern(seed: u64, bytes: u64) -> Vec<u8> {
    let mixed = |index: u64| (index ^ (seed << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    (0..bytes).map(|index| mixed(index) as u8).collect()
}

fn with_priority(priority: StreamPriority) -> TransferAttributes {
    TransferAttributes { priority, ..TransferAttributes::default() }
}

const PRIORITIES: [StreamPriority; 3] =
    [StreamPriority::Low, StreamPriority::Normal, StreamPriority::High];

impl World {
    fn memory(&self, bytes: u64) -> DevicePointer {
        self.device.allocate_device(bytes.max(1)).expect("room")
    }

    /// Device memory that holds these bytes.
    fn filled(&self, bytes: &[u8]) -> DevicePointer {
        let memory = self.memory(bytes.len() as u64);
        if !bytes.is_empty() {
            let host = self.device.allocate_host(bytes.len() as u64).expect("room");
            self.device.write_host(host, bytes).expect("fits");
            let stream = self.device.default_stream();
            let copied = self.device.copy(stream, host.into(), memory.into(), bytes.len() as u64);
            copied.expect("fits");
            self.device.free_host(host).expect("allocated");
        }
        memory
    }

    fn contents(&self, memory: DevicePointer, bytes: u64) -> Vec<u8> {
        let mut read = vec![0; bytes as usize];
        if bytes > 0 {
            self.device.peek(memory.into(), &mut read).expect("allocated");
        }
        read
    }

    fn upload(&self, bytes: &[u8], to: DevicePointer, attributes: TransferAttributes) -> Transfer {
        let source: HostSource = Arc::new(bytes.to_vec());
        self.engine.upload("upload", source, to, attributes).expect("room")
    }

    fn assert_idle(&self) {
        let idle = TransferUsage { transfers: 0, chunks_in_flight: 0, slots_used: 0 };
        assert_eq!(self.engine.usage(), Ok(idle));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_whatever_the_sizes_priorities_and_directions(
        jobs in prop::collection::vec((0_u8..4, 0_u64..3_000, 0_usize..3), 1..24),
        slot_bytes in 1_u64..400,
        slots in 1_u32..6,
    ) {
        let world = world(slot_bytes, slots);
        let mut uploads = Vec::new();
        let mut downloads = Vec::new();
        let mut copies = Vec::new();
        for (index, (kind, bytes, priority)) in jobs.iter().enumerate() {
            let expected = pattern(index as u64, *bytes);
            let attributes = with_priority(PRIORITIES[*priority]);
            match kind {
                0 => {
                    let memory = world.memory(*bytes);
                    let transfer = world.upload(&expected, memory, attributes);
                    uploads.push((transfer, memory, expected));
                }
                1 => {
                    let memory = world.filled(&expected);
                    let buffer = vec![0_u8; *bytes as usize];
                    let download = world.engine.download("download", memory, buffer, attributes);
                    downloads.push((download.expect("room"), expected));
                }
                2 => {
                    let (from, to) = (world.filled(&expected), world.memory(*bytes));
                    let copy = world.engine.copy("copy", from.into(), to.into(), *bytes, attributes);
                    copies.push((copy.expect("room"), to, expected));
                }
                _ => {
                    let host = world.device.allocate_host((*bytes).max(1)).expect("room");
                    world.device.write_host(host, &expected).expect("fits");
                    let memory = world.memory(*bytes);
                    let copy = world.engine.copy("pinned", host.into(), memory.into(), *bytes, attributes);
                    copies.push((copy.expect("room"), memory, expected));
                }
            }
        }
        for (download, expected) in downloads {
            prop_assert_eq!(download.wait(), Ok(expected));
        }
        for (transfer, memory, expected) in uploads.into_iter().chain(copies) {
            prop_assert_eq!(transfer.wait(), Ok(()));
            prop_assert_eq!(world.contents(memory, expected.len() as u64), expected);
        }
        world.assert_idle();
        let records = world.recorder.take().records;
        prop_assert_eq!(records.len(), jobs.len());
        let moved: u64 = jobs.iter().map(|(_, bytes, _)| bytes).sum();
        prop_assert_eq!(world.recorder.totals().copied_bytes, moved);
        for record in records.iter().filter(|record| record.bytes > 0) {
            let span = record.span.expect("timed");
            prop_assert!(record.submitted_ns <= span.start_ns && span.start_ns < span.end_ns);
        }
        let host_before = world.device.used_bytes(Space::Host);
        drop(world.engine);
        let ring = 2 * slot_bytes * u64::from(slots);
        prop_assert_eq!(world.device.used_bytes(Space::Host), host_before.map(|used| used - ring));
    }

    #[test]
    fn with_faults_a_transfer_is_exact_or_failed_by_name_and_nothing_is_left_behind(
        jobs in prop::collection::vec((any::<bool>(), 1_u64..3_000, 0_usize..3), 1..12),
        faults in prop::collection::vec((0_usize..7, 1_u64..30, any::<bool>()), 1..6),
        slots in 1_u32..5,
    ) {
        const FAILING: [Operation; 7] = [
            Operation::Copy,
            Operation::WriteHost,
            Operation::ReadHost,
            Operation::RecordEvent,
            Operation::CreateEvent,
            Operation::CreateStream,
            Operation::QueryEvent,
        ];
        let world = world(200, slots);
        let sources: Vec<(Vec<u8>, DevicePointer)> = jobs
            .iter()
            .enumerate()
            .map(|(index, (up, bytes, _))| {
                let expected = pattern(index as u64, *bytes);
                let memory = if *up { world.memory(*bytes) } else { world.filled(&expected) };
                (expected, memory)
            })
            .collect();
        for (operation, later, on_device) in faults {
            let operation = FAILING[operation];
            let occurrence = world.device.calls(operation).expect("sound") + later;
            let moment = if on_device { FaultMoment::OnDevice } else { FaultMoment::AtCall };
            world.device.inject(Fault { operation, occurrence, moment }).expect("sound");
        }
        let mut uploads = Vec::new();
        let mut downloads = Vec::new();
        for ((up, bytes, priority), (expected, memory)) in jobs.iter().zip(&sources) {
            let attributes = with_priority(PRIORITIES[*priority]);
            if *up {
                uploads.push((world.upload(expected, *memory, attributes), *memory, expected));
            } else {
                let buffer = vec![0_u8; *bytes as usize];
                let download = world.engine.download("download", *memory, buffer, attributes);
                downloads.push((download.expect("room"), expected));
            }
        }
        let mut failed = 0;
        for (transfer, memory, expected) in uploads {
            match transfer.wait() {
                Ok(()) => prop_assert_eq!(&world.contents(memory, expected.len() as u64), expected),
                Err(error) => {
                    prop_assert_eq!(error.code(), "chunk_failed");
                    failed += 1;
                }
            }
        }
        for (download, expected) in downloads {
            match download.wait() {
                Ok(bytes) => prop_assert_eq!(&bytes, expected),
                Err(error) => {
                    prop_assert_eq!(error.code(), "chunk_failed");
                    failed += 1;
                }
            }
        }
        world.assert_idle();
        prop_assert_eq!(world.recorder.totals().failures, failed);
    }
}

#[test]
fn failed_chunk_is_named_frees_its_slots_and_fails_only_its_transfer() {
    for moment in [FaultMoment::AtCall, FaultMoment::OnDevice] {
        let world = world(100, 4);
        let expected = [pattern(1, 250), pattern(2, 250), pattern(3, 250)];
        let memory: Vec<_> = expected.iter().map(|_| world.memory(250)).collect();
        // The fifth copy is the middle chunk of the second transfer.
        let fault = Fault { operation: Operation::Copy, occurrence: 5, moment };
        world.device.inject(fault).expect("sound");
        let transfers: Vec<_> = expected
            .iter()
            .zip(&memory)
            .map(|(bytes, memory)| world.upload(bytes, *memory, TransferAttributes::default()))
            .collect();
        assert_eq!(transfers[0].wait(), Ok(()));
        let error = transfers[1].wait().expect_err("planned");
        let TransferError::Chunk { offset, bytes, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*offset, *bytes), (100, 100));
        assert!(
            error
                .to_string()
                .starts_with("transfer \"upload\" failed in the chunk of 100 bytes at 100: ")
        );
        assert_eq!(transfers[2].wait(), Ok(()), "{moment:?}");
        for index in [0, 2] {
            assert_eq!(world.contents(memory[index], 250), expected[index]);
        }
        world.assert_idle();
    }
}

#[test]
fn high_priority_transfers_overtake_without_starving_low_priority_ones() {
    let world = world(MB, 2);
    let low = world.upload(
        &pattern(1, 10 * MB),
        world.memory(10 * MB),
        with_priority(StreamPriority::Low),
    );
    let high: Vec<_> = (0..10)
        .map(|index| {
            let bytes = pattern(index, 4 * MB);
            world.upload(&bytes, world.memory(4 * MB), with_priority(StreamPriority::High))
        })
        .collect();
    for transfer in &high {
        transfer.wait().expect("sound");
    }
    let arrived = low.progress().expect("alive").completed;
    // Two chunks were in flight before; then one in seventeen is of the low-priority transfer.
    assert_eq!(arrived, 4 * MB, "40 urgent chunks let 2 patient ones through");
    low.wait().expect("sound");
}

#[test]
fn full_ring_delays_chunks_and_full_queue_rejects_transfers() {
    let world = world_with(MB, 3, |options| options.waiting_transfers = 2);
    let bytes = pattern(1, 20 * MB);
    let first = world.upload(&bytes, world.memory(20 * MB), TransferAttributes::default());
    let usage = world.engine.usage().expect("sound");
    assert_eq!((usage.chunks_in_flight, usage.slots_used), (3, 3));
    let second = world.upload(&bytes, world.memory(20 * MB), TransferAttributes::default());
    let source: HostSource = Arc::new(bytes.clone());
    let third = world
        .engine
        .upload("third", source, world.memory(20 * MB), TransferAttributes::default())
        .expect_err("full");
    assert_eq!(
        third.to_string(),
        "transfer \"third\" refused: expected at most 2 waiting, got one more\nhint: wait for one \
         to finish"
    );
    while !first.poll().expect("sound") {
        let usage = world.engine.usage().expect("sound");
        assert!(usage.slots_used <= 3 && usage.chunks_in_flight <= 3);
    }
    second.wait().expect("sound");
}

#[test]
fn staging_saturates_the_link() {
    let world = world(1 << 20, 4);
    let bytes: u64 = 64 << 20;
    let memory = world.memory(bytes);
    world
        .upload(&vec![7; bytes as usize], memory, TransferAttributes::default())
        .wait()
        .expect("sound");
    let span = world.recorder.take().records[0].span.expect("timed");
    let reached = bytes as f64 / span.duration_ns() as f64 * 1e9;
    // One chunk of 1 MiB takes 42 us and the link's own 5 us of latency.
    assert!(reached > 0.99 * 25e9 * 42.0 / 47.0, "{reached} bytes/s");
}

#[test]
fn transfers_wait_for_events() {
    let world = world(512, 2);
    let device = &world.device;
    let expected = pattern(5, 4_096);
    let memory = world.memory(4_096);
    let producer = device.default_stream();
    device.fill(producer, memory.into(), 1, 4_096).expect("fits");
    let event = device.create_event().expect("sound");
    device.record_event(event, producer).expect("sound");
    let attributes = TransferAttributes { after: vec![event], ..TransferAttributes::default() };
    let download = world.engine.download("download", memory, vec![0; 4_096], attributes);
    assert_eq!(download.expect("room").wait(), Ok(vec![1; 4_096]));

    device.destroy_event(event).expect("alive");
    let attributes = TransferAttributes { after: vec![event], ..TransferAttributes::default() };
    let orphan = world.upload(&expected, memory, attributes);
    assert_eq!(orphan.wait().map_err(|error| error.code()), Err("dependency_failed"));
    world.assert_idle();
}

#[test]
fn cancel_drops_unstarted_chunks_and_completes_those_in_flight() {
    let world = world(MB, 2);
    let memory = world.memory(10 * MB);
    let transfer = world.upload(&pattern(1, 10 * MB), memory, TransferAttributes::default());
    transfer.cancel().expect("sound");
    assert_eq!(world.engine.usage().expect("sound").chunks_in_flight, 2);
    assert_eq!(transfer.wait(), Err(TransferError::Cancelled { name: "upload".to_owned() }));
    world.assert_idle();
    assert_eq!(transfer.progress().expect("alive").completed, 0);
    let after = world.contents(memory, 10 * MB);
    assert!(after[2 * MB as usize..].iter().all(|byte| *byte == FRESH_BYTE));
}

#[test]
fn transfer_continues_after_its_handle_is_dropped() {
    let world = world(1_000, 2);
    let expected = pattern(9, 5_000);
    let memory = world.memory(5_000);
    drop(world.upload(&expected, memory, TransferAttributes::default()));
    let last = world.upload(&pattern(1, 10), world.memory(10), TransferAttributes::default());
    last.wait().expect("sound");
    assert_eq!(world.contents(memory, 5_000), expected);
    world.assert_idle();
}

#[test]
fn dropped_engine_records_unfinished_transfers_as_cancelled() {
    let world = world(MB, 2);
    let bytes = vec![1; 10 * MB as usize];
    drop(world.upload(&bytes, world.memory(10 * MB), TransferAttributes::default()));
    drop(world.engine);
    let records = world.recorder.take().records;
    let failures: Vec<_> = records.iter().map(|record| record.failure).collect();
    assert_eq!(failures, [Some("cancelled")]);
    assert_eq!(world.device.used_bytes(Space::Host), Ok(0));
}

/// A buffer that shrinks during the transfer.
struct Shrinking(Vec<u8>, AtomicUsize);

impl AsRef<[u8]> for Shrinking {
    fn as_ref(&self) -> &[u8] {
        match self.1.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => &self.0,
            _ => &self.0[..10],
        }
    }
}

#[test]
fn invalid_calls_name_the_problem() {
    let world = world(100, 2);
    let memory = world.memory(1_050);
    let attributes = TransferAttributes::default;
    let inside = Address::from(memory).offset(150).expect("small");
    let overlap = world.engine.copy("overlap", memory.into(), inside, 300, attributes());
    assert_eq!(overlap.map_err(|error| error.code()).err(), Some("overlap"));

    let shrinking = Arc::new(Shrinking(vec![1; 500], AtomicUsize::new(0)));
    let transfer = world.engine.upload("shrinking", shrinking, memory, attributes());
    let error = transfer.expect("room").wait().expect_err("shrank");
    assert_eq!(
        error.to_string(),
        "host buffer of transfer \"shrinking\" shrank: expected 500 bytes, got 10\nhint: keep it \
         unchanged until the transfer is done"
    );

    let past = world.upload(&[0; 1_051], memory, attributes());
    let error = past.wait().expect_err("one byte too many");
    assert_eq!(error.code(), "chunk_failed");
    assert!(error.to_string().contains("out of bounds in copy"), "{error}");
    world.assert_idle();

    let options = TransferOptions { slots: 0, ..TransferOptions::default() };
    let engine = TransferEngine::new(world.device.clone(), options, world.recorder.clone());
    assert_eq!(
        engine.map_err(|error| error.to_string()).err().as_deref(),
        Some("invalid option slots: expected at least 1, got 0")
    );
}

#[test]
fn task_limit_throttles_transfers_and_its_end_fails_them() {
    let world = world(1_000, 4);
    let clock = Arc::new(world.device.virtual_clock().clone());
    let options = SchedulerOptions::new(0, PerLane::from_fn(|_| 25_000_000_000));
    let whole = options.whole_device("whole");
    let scheduler = Scheduler::new(options, clock).expect("valid");
    let mut options = TaskOptions::new("loader", scheduler.add_partition(whole).expect("fits"));
    options.lanes.upload.limit = Some(Rate { units_per_second: 1_000_000, burst_units: 1_000 });
    let task = Arc::new(scheduler.submit(options).expect("fits"));
    task.start().expect("admitted");
    let attributes =
        || TransferAttributes { task: Some(Arc::clone(&task)), ..TransferAttributes::default() };
    let before = world.device.clock().now_ns();
    let expected = pattern(1, 20_000);
    let memory = world.memory(20_000);
    world.upload(&expected, memory, attributes()).wait().expect("sound");
    let took = world.device.clock().now_ns() - before;
    // 19 of the 20 chunks wait for the limit, one millisecond each.
    assert!((19_000_000..20_000_000).contains(&took), "{took}");
    assert_eq!(world.contents(memory, 20_000), expected);
    assert_eq!(task.snapshot().expect("alive").lanes.upload.granted_units, 20_000);
    let record = &world.recorder.take().records[0];
    assert_eq!(
        (record.task, record.kind),
        (Some(task.id()), WorkKind::Copy(CopyDirection::HostToDevice))
    );

    let doomed = world.upload(&expected, memory, attributes());
    task.cancel().expect("running");
    assert_eq!(doomed.wait().map_err(|error| error.code()), Err("task_ended"));
    world.assert_idle();
    assert_eq!(scheduler.snapshot().expect("sound").lanes.upload.grants_in_flight, 0);
}

#[test]
fn engine_serves_many_threads() {
    let world = world(500, 3);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..40 {
                    let expected = pattern(thread * 100 + round, 1 + (round * 131) % 4_000);
                    let memory = world.memory(expected.len() as u64);
                    let upload = world.upload(&expected, memory, TransferAttributes::default());
                    upload.wait().expect("sound");
                    let buffer = vec![0; expected.len()];
                    let attributes = with_priority(PRIORITIES[(round % 3) as usize]);
                    let download = world.engine.download("download", memory, buffer, attributes);
                    assert_eq!(download.expect("room").wait(), Ok(expected));
                }
            });
        }
    });
    world.assert_idle();
    assert_eq!(world.recorder.totals().copies, 8 * 40 * 2);
}
