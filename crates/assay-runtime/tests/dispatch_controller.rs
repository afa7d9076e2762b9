//! Dispatch on the simulated device: order, limits, records, failures and tasks.

use assay_runtime::backend::*;
use assay_runtime::dispatch::*;
use assay_runtime::scheduler::*;
use assay_runtime::sim::*;
use assay_runtime::transfer::{HostSource, TransferAttributes, TransferEngine, TransferOptions};
use proptest::prelude::*;
use std::sync::Arc;

struct World {
    device: Arc<SimBackend>,
    controller: DispatchController,
    mix: KernelId,
    delay: KernelId,
}

fn options(in_flight: usize, waiting: usize, timing: Timing) -> DispatchOptions {
    DispatchOptions { in_flight, waiting, timing }
}

fn world(options: DispatchOptions) -> World {
    let device = Arc::new(
        SimBackend::new(SimOptions { record_timeline: true, ..SimOptions::default() })
            .expect("valid"),
    );
    // Neither commutes with itself for another number, so that a wrong order changes the result.
    let mix = device.register_kernel(SimKernel {
        name: "mix".to_owned(),
        parameters: 2,
        duration_ns: Box::new(|_| 3_000),
        body: Some(Box::new(|launch, memory| {
            let [KernelArgument::Pointer(cell), KernelArgument::U32(number)] = launch.arguments[..]
            else {
                return Err(BackendError::UnknownKernel { kernel: launch.kernel });
            };
            memory.update(cell.into(), 4, |bytes| {
                let mut value = [0; 4];
                value.copy_from_slice(bytes);
                let mixed = mixed(u32::from_le_bytes(value), number);
                bytes.copy_from_slice(&mixed.to_le_bytes());
            })
        })),
    });
    let delay = device.register_kernel(SimKernel {
        name: "delay".to_owned(),
        parameters: 1,
        duration_ns: Box::new(|launch| match launch.arguments[..] {
            [KernelArgument::U64(nanoseconds)] => nanoseconds,
            _ => 0,
        }),
        body: None,
    });
    let recorder = Arc::new(Recorder::new(100_000));
    let controller = DispatchController::new(device.clone(), options, recorder);
    World {
        controller: controller.expect("valid"),
        mix: mix.expect("sound"),
        delay: delay.expect("sound"),
        device,
    }
}

fn mixed(value: u32, number: u32) -> u32 {
    (value ^ number).wrapping_mul(0x9E37_79B1).rotate_left(number % 31)
}

fn launch(kernel: KernelId, arguments: Vec<KernelArgument>) -> Work {
    Work::Launch(Launch { kernel, grid: [1; 3], block: [1; 3], shared_bytes: 0, arguments })
}

impl World {
    fn stream(&self) -> StreamId {
        self.controller.create_stream(StreamPriority::Normal).expect("sound")
    }

    fn delay(&self, name: &str, stream: StreamId, nanoseconds: u64) -> WorkRequest {
        let work = launch(self.delay, vec![KernelArgument::U64(nanoseconds)]);
        let mut request = WorkRequest::new(name, stream, work);
        request.cost_ns = nanoseconds;
        request
    }

    fn mix(&self, stream: StreamId, cell: DevicePointer, number: u32) -> WorkRequest {
        let arguments = vec![KernelArgument::Pointer(cell), KernelArgument::U32(number)];
        WorkRequest::new("mix", stream, launch(self.mix, arguments))
    }

    fn submit(&self, request: WorkRequest) -> WorkId {
        self.controller.submit(request).expect("accepted")
    }

    fn records(&self) -> Vec<WorkRecord> {
        self.controller.recorder().take().records
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dependencies_between_streams_are_respected(
        steps in prop::collection::vec((0_usize..4, 0_usize..3, 0_u8..3, any::<u8>()), 1..60),
        in_flight in 1_usize..6,
        timed in any::<bool>(),
        wait_for in any::<prop::sample::Index>(),
    ) {
        let timing = if timed { Timing::Full } else { Timing::Off };
        let world = world(options(in_flight, 1_000, timing));
        let streams: Vec<_> = (0..4).map(|_| world.stream()).collect();
        let cells = world.device.allocate_device(3 * 256).expect("room");
        let cell = |index: usize| DevicePointer(cells.0 + 256 * index as u64);
        // One host cell for each step: what is uploaded, or what was downloaded.
        let host = world.device.allocate_host(4 * 60).expect("room");
        let host_cell = |step: usize| HostPointer(host.0 + 4 * step as u64);
        let fill = Work::Fill { destination: cells.into(), value: 0, bytes: 3 * 256 };
        let first = world.submit(WorkRequest::new("fill", streams[0], fill));
        let mut last = [first; 3];
        let mut expected = [0_u32; 3];
        let mut downloaded = Vec::new();
        let mut all = Vec::new();
        // Kernels, uploads and downloads run on separate engines, so that only the dependencies
        // order them.
        for (step, (stream, index, kind, number)) in steps.iter().enumerate() {
            let (stream, number) = (streams[*stream], u32::from(*number));
            let copy = |source: Address, destination: Address| {
                let work = Work::Copy { source, destination, bytes: 4 };
                WorkRequest::new("copy", stream, work)
            };
            let mut request = match kind {
                0 => {
                    expected[*index] = mixed(expected[*index], number);
                    world.mix(stream, cell(*index), number)
                }
                1 => {
                    expected[*index] = number;
                    let written = world.device.write_host(host_cell(step), &number.to_le_bytes());
                    written.expect("fits");
                    copy(host_cell(step).into(), cell(*index).into())
                }
                _ => {
                    downloaded.push((step, expected[*index]));
                    copy(cell(*index).into(), host_cell(step).into())
                }
            };
            request.after = vec![last[*index]];
            last[*index] = world.submit(request);
            all.push(last[*index]);
        }
        world.controller.wait(all[wait_for.index(all.len())]).expect("sound");
        for stream in &streams {
            world.controller.synchronize(*stream).expect("sound");
        }
        let at_the_end = (0..3).map(|index| (Address::from(cell(index)), expected[index]));
        let on_the_way = downloaded
            .iter()
            .map(|(step, expected)| (Address::from(host_cell(*step)), *expected));
        for (address, expected) in at_the_end.chain(on_the_way) {
            let mut bytes = [0; 4];
            world.device.peek(address, &mut bytes).expect("allocated");
            prop_assert_eq!(u32::from_le_bytes(bytes), expected);
        }
        let totals = world.controller.recorder().totals();
        prop_assert_eq!(totals.launches + totals.copies, steps.len() as u64);
        for stream in streams {
            let idle = StreamUsage { in_flight: 0, waiting: 0 };
            prop_assert_eq!(world.controller.usage(stream), Ok(idle));
        }
        let records = world.records();
        prop_assert!(records.iter().all(|record| record.span.is_some() == timed));
    }
}

#[test]
fn records_have_kind_stream_and_span() {
    let world = world(DispatchOptions::default());
    let stream = world.stream();
    let memory = world.device.allocate_device(1 << 20).expect("room");
    let host = world.device.allocate_host(1 << 20).expect("room");
    let copy =
        |source: Address, destination: Address| Work::Copy { source, destination, bytes: 1 << 20 };
    let upload = copy(host.into(), memory.into());
    world.submit(WorkRequest::new("load", stream, upload));
    let mut gemm = world.delay("gemm", stream, 70_000);
    (gemm.bytes, gemm.flops) = (3 << 20, 2e9);
    world.submit(gemm);
    let download = copy(memory.into(), host.into());
    world.submit(WorkRequest::new("store", stream, download));
    world.controller.synchronize(stream).expect("sound");
    let records = world.records();
    let kinds: Vec<_> = records
        .iter()
        .map(|record| (&*record.name, record.kind.name(), record.bytes, record.flops))
        .collect();
    assert_eq!(
        kinds,
        [
            ("load", "copy to device", 1 << 20, 0.0),
            ("gemm", "launch", 3 << 20, 2e9),
            ("store", "copy to host", 1 << 20, 0.0),
        ]
    );
    let real = world.device.take_timeline().expect("recorded");
    for (record, span) in records.iter().zip(&real) {
        let recorded = record.span.expect("timed");
        assert_eq!((record.stream, recorded.end_ns), (stream, span.end_ns), "{}", record.name);
        assert!(record.submitted_ns <= recorded.start_ns && recorded.start_ns <= span.start_ns);
        // The stream reached it, and the engine was free.
        assert!(span.start_ns - recorded.start_ns <= 4_000, "{}", record.name);
    }
    let totals = world.controller.recorder().totals();
    assert_eq!((totals.launches, totals.copies, totals.flops), (1, 2, 2e9));
}

#[test]
fn spans_stay_exact_over_many_seconds() {
    let world = world(DispatchOptions::default());
    let stream = world.stream();
    for _ in 0..5 {
        world.submit(world.delay("long", stream, 700_000_000));
        world.controller.synchronize(stream).expect("sound");
    }
    let real = world.device.take_timeline().expect("recorded");
    let records = world.records();
    assert_eq!(records.len(), 5);
    for (record, span) in records.iter().zip(&real) {
        assert_eq!(record.span.expect("timed").end_ns, span.end_ns);
    }
}

#[test]
fn flush_waits_until_work_is_issued_and_not_until_it_is_done() {
    let world = world(options(2, 8, Timing::Off));
    let stream = world.stream();
    for name in ["a", "b", "c", "d", "e"] {
        world.submit(world.delay(name, stream, 1_000_000));
    }
    assert_eq!(world.controller.flush(stream), Ok(()));
    let usage = world.controller.usage(stream).expect("known");
    assert_eq!(usage.waiting, 0);
    assert!(usage.in_flight > 0);
    assert!(world.device.clock().now_ns() < 5_000_000);
    assert_eq!(world.controller.synchronize(stream), Ok(()));
}

#[test]
fn work_before_a_flush_is_waited_for_without_what_comes_after_it() {
    let world = world(options(64, 8, Timing::Off));
    let stream = world.stream();
    let before = world.submit(world.delay("before", stream, 1_000_000));
    assert_eq!(world.controller.flush(stream), Ok(()));
    world.submit(world.delay("after", stream, 1_000_000_000));
    assert_eq!(world.controller.wait(before), Ok(()));
    assert!(world.device.clock().now_ns() < 1_000_000_000);
}

#[test]
fn full_stream_queues_work_and_full_queue_refuses_it() {
    let world = world(options(2, 3, Timing::Full));
    let stream = world.stream();
    let work = |name| world.delay(name, stream, 1_000_000);
    for index in 0..5 {
        world.submit(work(["a", "b", "c", "d", "e"][index]));
    }
    let usage = StreamUsage { in_flight: 2, waiting: 3 };
    assert_eq!(world.controller.usage(stream), Ok(usage));
    let refused = world.controller.submit(work("f")).expect_err("full");
    assert_eq!(
        refused.to_string(),
        format!(
            "\"f\" refused: expected at most 3 operations waiting for stream {}, got one \
             more\nhint: wait for work on that stream to finish",
            stream.0
        )
    );
    let last = world.controller.submit_blocking(work("f")).expect("room after a while");
    assert!(!world.controller.is_complete(last).expect("sound"));
    world.controller.wait(last).expect("sound");
    let names: Vec<_> = world.records().iter().map(|record| record.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
}

#[test]
fn rejected_work_is_reported_by_its_call_or_the_next() {
    let world = world(options(1, 8, Timing::Full));
    let stream = world.stream();
    let wrong = || WorkRequest::new("wrong", stream, launch(world.delay, Vec::new()));
    let error = world.controller.submit(wrong()).expect_err("no argument");
    assert_eq!(
        error.to_string(),
        format!(
            "\"wrong\" on stream {} refused: wrong arguments in launch of delay: expected 1, got 0",
            stream.0
        )
    );
    // Behind other work, the rejection comes later: for the work itself and what waits behind it.
    let sound = world.submit(world.delay("sound", stream, 1_000_000));
    let late = world.submit(wrong());
    let behind = world.submit(world.delay("behind", stream, 10));
    let other = world.stream();
    let mut elsewhere = world.delay("elsewhere", other, 10);
    elsewhere.after = vec![behind];
    let elsewhere = world.submit(elsewhere);
    assert_eq!(world.controller.wait(sound), Ok(()));
    world.controller.poll().expect("moves on");
    let next = world.controller.submit(world.delay("next", stream, 10));
    assert_eq!(next.map_err(|error| error.code()), Err("argument_count"));
    for work in [late, behind] {
        assert_eq!(
            world.controller.wait(work).map_err(|error| error.code()),
            Err("argument_count")
        );
    }
    let error = world.controller.wait(elsewhere).expect_err("depends on it");
    assert_eq!(error.code(), "dependency_failed");
    assert!(error.to_string().starts_with("\"elsewhere\" depends on work that failed: \"wrong\""));
    let again = world.submit(world.delay("again", stream, 10));
    assert_eq!(world.controller.wait(again), Ok(()), "reported once, then usable");
    let failures: Vec<_> = world
        .records()
        .into_iter()
        .filter_map(|record| Some((record.name.to_string(), record.failure?)))
        .collect();
    let expected = [
        ("wrong", "argument_count"),
        ("wrong", "argument_count"),
        ("behind", "argument_count"),
        ("elsewhere", "dependency_failed"),
    ];
    assert_eq!(failures, expected.map(|(name, code)| (name.to_owned(), code)));
}

#[test]
fn device_failure_fails_dependent_work_and_recovers_the_stream() {
    let world = world(options(2, 8, Timing::Full));
    let (failing, other) = (world.stream(), world.stream());
    let fault =
        Fault { operation: Operation::Launch, occurrence: 1, moment: FaultMoment::OnDevice };
    world.device.inject(fault).expect("sound");
    let works: Vec<_> =
        (0..4).map(|_| world.submit(world.delay("doomed", failing, 1_000_000))).collect();
    let mut after = world.delay("after", other, 10);
    after.after = vec![works[3]];
    let after = world.submit(after);
    for work in &works {
        let error = world.controller.wait(*work).expect_err("planned");
        assert_eq!(error.code(), "stream_failed");
        let expected =
            format!("\"doomed\" failed on stream {}: injected by the fault plan", failing.0);
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    assert_eq!(
        world.controller.wait(after).map_err(|error| error.code()),
        Err("dependency_failed")
    );
    let again = world.submit(world.delay("again", failing, 10));
    assert_eq!(world.controller.wait(again), Ok(()), "the stream goes on");
    // Failures are kept.
    assert!(world.controller.wait(works[0]).is_err());
    assert!(world.controller.failure(works[0]).expect("sound").is_some());
    assert_eq!(world.controller.failure(again), Ok(None));
    assert_eq!(world.controller.destroy_stream(failing), Ok(()));
    assert!(world.controller.failure(works[0]).expect("sound").is_some());
    assert_eq!(world.controller.failure(again), Ok(None));
    let fine = world.submit(world.delay("fine", world.stream(), 10));
    assert_eq!(world.controller.wait(fine), Ok(()));
    assert_eq!(world.controller.recorder().totals().failures, 5);
}

#[test]
fn synchronize_reports_an_unreported_failure_once() {
    for timing in [Timing::Full, Timing::Off] {
        let world = world(options(8, 8, timing));
        let (stream, side) = (world.stream(), world.stream());
        let fault =
            Fault { operation: Operation::Launch, occurrence: 2, moment: FaultMoment::OnDevice };
        world.device.inject(fault).expect("sound");
        world.submit(world.delay("before", stream, 1_000));
        world.submit(world.delay("bad", stream, 1_000));
        world.submit(world.delay("behind", stream, 1_000));
        world.submit(world.delay("elsewhere", side, 1_000));
        let error = world.controller.synchronize(stream).expect_err("injected");
        assert!(error.to_string().contains("injected by the fault plan"));
        assert_eq!(world.controller.synchronize(stream), Ok(()));
        assert_eq!(world.controller.synchronize(side), Ok(()));
        let again = world.submit(world.delay("again", stream, 10));
        assert_eq!(world.controller.wait(again), Ok(()));
    }
}

#[test]
fn failed_event_records_lose_spans_only() {
    for occurrence in 1..12 {
        let world = world(options(2, 100, Timing::Full));
        let stream = world.stream();
        let before = world.device.calls(Operation::RecordEvent).expect("sound");
        let fault = Fault {
            operation: Operation::RecordEvent,
            occurrence: before + occurrence,
            moment: FaultMoment::AtCall,
        };
        world.device.inject(fault).expect("sound");
        for _ in 0..6 {
            world.submit(world.delay("work", stream, 10_000));
        }
        world.controller.synchronize(stream).expect("sound");
        assert_eq!(world.controller.recorder().totals().launches, 6, "{occurrence}");
    }
}

fn scheduler(
    world: &World,
    change: impl FnOnce(&mut SchedulerOptions),
) -> (Scheduler, PartitionId) {
    let mut options = SchedulerOptions::new(0, PerLane::from_fn(|_| 1_000_000_000));
    change(&mut options);
    let whole = options.whole_device("whole");
    let clock = Arc::new(world.device.virtual_clock().clone());
    let scheduler = Scheduler::new(options, clock).expect("valid");
    let partition = scheduler.add_partition(whole).expect("fits");
    (scheduler, partition)
}

fn started(scheduler: &Scheduler, options: TaskOptions) -> Arc<Task> {
    let task = scheduler.submit(options).expect("fits");
    task.start().expect("admitted");
    Arc::new(task)
}

#[test]
fn two_tenants_get_measured_device_time_by_weight() {
    // Work that a task is charged for is timed, whether or not other work is.
    for timing in [Timing::Full, Timing::Off] {
        share_by_weight(timing);
    }
}

fn share_by_weight(timing: Timing) {
    let world = world(options(64, 10_000, timing));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_units = 500_000;
    });
    let mut tenants = Vec::new();
    for (weight, nanoseconds) in [(70, 100_000), (30, 250_000)] {
        let mut options = TaskOptions::new("tenant", partition);
        options.weight = weight;
        let task = started(&scheduler, options);
        let stream = world.stream();
        for _ in 0..3_000 {
            let mut request = world.delay("step", stream, nanoseconds);
            request.task = Some(Arc::clone(&task));
            // The estimate is wrong by a factor of two; the measured time counts.
            request.cost_ns = nanoseconds / 2;
            world.submit(request);
        }
        tenants.push((task, stream));
    }
    let until = 200_000_000 + world.device.clock().now_ns();
    while world.device.clock().now_ns() < until {
        world.controller.poll().expect("sound");
        let next = world.device.next_completion_ns().expect("sound");
        world.device.virtual_clock().advance_to_ns(next.expect("busy"));
    }
    let measured: Vec<u64> = tenants
        .iter()
        .map(|(task, _)| task.snapshot().expect("alive").lanes.compute.measured_units)
        .collect();
    let mut busy = [0_u64; 2];
    for span in world.device.take_timeline().expect("recorded") {
        if let Some(index) = tenants.iter().position(|(_, stream)| *stream == span.stream) {
            busy[index] += span.end_ns - span.start_ns;
        }
    }
    let share = busy[0] as f64 / (busy[0] + busy[1]) as f64;
    assert!((share - 0.7).abs() < 0.05, "busy {busy:?}, measured {measured:?}");
    assert!(busy[0] + busy[1] > 190_000_000, "the device stood idle: {busy:?}");
}

#[test]
fn guaranteed_tenant_is_isolated_from_a_flood() {
    let world = world(options(64, 100_000, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_units = 100_000;
    });
    let mut options = TaskOptions::new("guaranteed", partition);
    options.class = Class::Guaranteed;
    options.lanes.compute.reserved =
        Some(Rate { units_per_second: 600_000_000, burst_units: 2_000_000 });
    let tenant = started(&scheduler, options);
    let stream = world.controller.create_stream(StreamPriority::High).expect("sound");
    let step = || {
        let before = world.device.clock().now_ns();
        let mut request = world.delay("step", stream, 1_000_000);
        request.task = Some(Arc::clone(&tenant));
        let work = world.submit(request);
        world.controller.wait(work).expect("sound");
        // Think time, during which the others run.
        let took = world.device.clock().now_ns() - before;
        for _ in 0..20 {
            world.device.virtual_clock().advance_ns(50_000);
            world.controller.poll().expect("sound");
        }
        took
    };
    let alone: Vec<u64> = (0..20).map(|_| step()).collect();
    let flood = started(&scheduler, TaskOptions::new("flood", partition));
    let flooded = world.stream();
    for _ in 0..20_000 {
        let mut request = world.delay("flood", flooded, 50_000);
        request.task = Some(Arc::clone(&flood));
        world.submit(request);
    }
    let mut beside: Vec<u64> = (0..200).map(|_| step()).collect();
    beside.sort_unstable();
    let (alone, p99) = (alone[10], beside[197]);
    assert!(p99 as f64 <= 1.2 * alone as f64, "{p99} ns beside a flood, {alone} ns alone");
    let served = flood.snapshot().expect("alive").lanes.compute.grants;
    assert!(served > 1_000, "the flood got only {served} grants");
}

#[test]
fn waiting_progresses_streams_that_hold_the_needed_grants() {
    let world = world(options(4, 100, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_grants = 1;
        options.lanes.upload.window_grants = 1;
    });
    let tasks: Vec<_> =
        (0..2).map(|_| started(&scheduler, TaskOptions::new("task", partition))).collect();
    let streams = [world.stream(), world.stream()];
    let memory = world.device.allocate_device(1_000_000).expect("room");
    let host = world.device.allocate_host(1_000_000).expect("room");
    let upload = |stream| {
        let work = Work::Copy { source: host.into(), destination: memory.into(), bytes: 1_000_000 };
        WorkRequest::new("upload", stream, work)
    };
    let mut last = Vec::new();
    for round in 0..20 {
        // Each stream uses the two lanes in the opposite order, and depends on the other stream.
        for index in 0..2 {
            let stream = streams[index];
            let mut pair = [upload(stream), world.delay("kernel", stream, 30_000)];
            if (round + index) % 2 == 0 {
                pair.reverse();
            }
            for mut request in pair {
                request.task = Some(Arc::clone(&tasks[(round + index) % 2]));
                request.after = last.clone();
                last = vec![world.submit(request)];
            }
            if round % 3 == 0 {
                last.clear();
            }
        }
    }
    for stream in streams {
        world.controller.synchronize(stream).expect("sound");
    }
    let totals = world.controller.recorder().totals();
    assert_eq!((totals.launches, totals.copies, totals.failures), (40, 40, 0));
    drop(tasks);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn transfer_and_dispatch_waits_progress_each_other() {
    let world = world(options(4, 100, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.upload.window_grants = 1;
    });
    let recorder = Arc::clone(world.controller.recorder());
    let transfers = TransferOptions { slot_bytes: 100_000, ..TransferOptions::default() };
    let engine = TransferEngine::new(world.device.clone(), transfers, recorder).expect("valid");
    let task = started(&scheduler, TaskOptions::new("task", partition));
    let memory = world.device.allocate_device(1_000_000).expect("room");
    let host = world.device.allocate_host(1_000_000).expect("room");
    let stream = world.stream();
    for _ in 0..3 {
        let work = Work::Copy { source: host.into(), destination: memory.into(), bytes: 1_000_000 };
        let mut copy = WorkRequest::new("copy", stream, work);
        copy.task = Some(Arc::clone(&task));
        let upload = || {
            let terms = TransferAttributes {
                task: Some(Arc::clone(&task)),
                ..TransferAttributes::default()
            };
            let source: HostSource = Arc::new(vec![7; 400_000]);
            engine.upload("upload", source, memory, terms).expect("room")
        };
        world.submit(copy.clone());
        upload().wait().expect("the copy's grant ends");
        let _unattended = upload();
        let last = world.submit(copy);
        world.controller.wait(last).expect("the upload's grant ends");
    }
    world.controller.synchronize(stream).expect("sound");
    while engine.usage().expect("sound").transfers > 0 {
        engine.poll().expect("sound");
    }
    drop((task, engine));
    assert_eq!(world.controller.recorder().totals().copies, 12);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn work_is_waited_for_until_it_is_issued_and_not_until_what_comes_after_it_is() {
    let world = world(options(64, 100, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_grants = 1;
    });
    let tasks = [(); 2].map(|()| started(&scheduler, TaskOptions::new("task", partition)));
    let streams = [world.stream(), world.stream()];
    let mut works = Vec::new();
    for index in [0, 1, 1] {
        let mut request = world.delay("work", streams[index], 1_000_000);
        request.task = Some(Arc::clone(&tasks[index]));
        works.push(world.submit(request));
    }
    assert_eq!(world.controller.usage(streams[1]).expect("known").waiting, 2);
    assert_eq!(world.controller.wait_issued(works[1]), Ok(()));
    let usage = world.controller.usage(streams[1]).expect("known");
    assert_eq!((usage.in_flight, usage.waiting), (1, 1));
    assert_eq!(world.controller.is_complete(works[0]), Ok(true), "it held the only grant");
    assert_eq!(world.controller.is_complete(works[1]), Ok(false));
    // What cannot be issued any more is no wait.
    tasks[1].cancel().expect("running");
    assert_eq!(world.controller.wait_issued(works[2]), Ok(()));
    let failed = world.controller.is_complete(works[2]).map_err(|error| error.code());
    assert_eq!(failed, Err("task_ended"));
    assert_eq!(world.controller.wait(works[1]), Ok(()), "already on the device");
    drop(tasks);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn canceling_a_task_fails_only_its_waiting_work() {
    let world = world(options(64, 100, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_grants = 1;
    });
    let task = started(&scheduler, TaskOptions::new("task", partition));
    let stream = world.stream();
    let works: Vec<_> = (0..3)
        .map(|_| {
            let mut request = world.delay("work", stream, 1_000_000);
            request.task = Some(Arc::clone(&task));
            world.submit(request)
        })
        .collect();
    task.cancel().expect("running");
    assert_eq!(world.controller.wait(works[0]), Ok(()), "already on the device");
    for work in &works[1..] {
        assert_eq!(world.controller.wait(*work).map_err(|error| error.code()), Err("task_ended"));
    }
    let other = world.submit(world.delay("other", world.stream(), 10));
    assert_eq!(world.controller.wait(other), Ok(()));
    drop(task);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn dropped_controller_waits_for_work_in_flight_and_abandons_the_rest() {
    let world = world(options(2, 100, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |_| {});
    let task = started(&scheduler, TaskOptions::new("task", partition));
    let stream = world.stream();
    for _ in 0..5 {
        let mut request = world.delay("work", stream, 400_000);
        request.task = Some(Arc::clone(&task));
        world.submit(request);
    }
    let before = world.device.clock().now_ns();
    let recorder = Arc::clone(world.controller.recorder());
    drop(world.controller);
    assert!(world.device.clock().now_ns() - before > 700_000, "two were in flight");
    let failures: Vec<_> = recorder.take().records.iter().map(|record| record.failure).collect();
    assert_eq!(failures, [None, None, Some("abandoned"), Some("abandoned"), Some("abandoned")]);
    drop(task);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}

#[test]
fn threads_submit_to_shared_and_private_streams() {
    let world = world(options(8, 10_000, Timing::Full));
    let (scheduler, partition) = scheduler(&world, |options| {
        options.lanes.compute.window_grants = 4;
    });
    let shared = world.stream();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let (world, scheduler) = (&world, &scheduler);
            scope.spawn(move || {
                let task = started(scheduler, TaskOptions::new("thread", partition));
                let own = world.stream();
                let mut last: Option<WorkId> = None;
                for round in 0..60 {
                    let stream = if round % 4 == 0 { shared } else { own };
                    let mut request = world.delay("work", stream, 5_000);
                    request.task = (round % 3 == 0).then(|| Arc::clone(&task));
                    request.after = last.into_iter().collect();
                    let work = world.controller.submit_blocking(request).expect("sound");
                    last = Some(work);
                    if round % 10 == 9 {
                        world.controller.wait(work).expect("sound");
                    }
                }
                world.controller.synchronize(own).expect("sound");
            });
        }
    });
    world.controller.synchronize(shared).expect("sound");
    assert_eq!(world.controller.recorder().totals().launches, 360);
    assert!(scheduler.snapshot().expect("sound").is_idle());
}
