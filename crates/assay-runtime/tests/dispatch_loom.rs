//! Loom models of threads that share one dispatch controller.
//!
//! Run with: RUSTFLAGS="--cfg loom" cargo test -p assay-runtime --test dispatch_loom
#![cfg(loom)]

use assay_runtime::backend::*;
use assay_runtime::clock::VirtualClock;
use assay_runtime::dispatch::*;
use assay_runtime::scheduler::*;
use assay_runtime::sim::{SimBackend, SimOptions};
use loom::thread;
use std::sync::Arc;

fn controller(in_flight: usize) -> (Arc<SimBackend>, DispatchController, [StreamId; 2]) {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid"));
    let options = DispatchOptions { in_flight, waiting: 8, timing: Timing::Off };
    let recorder = Arc::new(Recorder::new(4));
    let controller = DispatchController::new(device.clone(), options, recorder).expect("valid");
    let stream = || controller.create_stream(StreamPriority::Normal).expect("sound");
    let streams = [stream(), stream()];
    (device, controller, streams)
}

fn fill(stream: StreamId, memory: DevicePointer, after: &[WorkId]) -> WorkRequest {
    let work = Work::Fill { destination: memory.into(), value: 1, bytes: 1 };
    let mut request = WorkRequest::new("fill", stream, work);
    request.after = after.to_vec();
    request
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn threads_with_crossing_dependencies_both_finish() {
    model(|| {
        let (device, controller, [one, two]) = controller(1);
        let memory = device.allocate_device(1).expect("room");
        let crossing = move |controller: &DispatchController, from, to| {
            let first = controller.submit(fill(from, memory, &[])).expect("room");
            let second = controller.submit(fill(to, memory, &[first])).expect("room");
            controller.wait(second)
        };
        let elsewhere = controller.clone();
        let other = thread::spawn(move || crossing(&elsewhere, two, one));
        assert_eq!(crossing(&controller, one, two), Ok(()));
        assert_eq!(other.join().expect("no panic"), Ok(()));
        assert_eq!(controller.synchronize(one), Ok(()));
        assert_eq!(controller.synchronize(two), Ok(()));
        assert_eq!(controller.recorder().totals().fills, 4);
    });
}

#[test]
fn threads_that_need_the_single_grant_both_get_it() {
    model(|| {
        let (device, controller, streams) = controller(4);
        let memory = device.allocate_device(1).expect("room");
        let mut options = SchedulerOptions::new(0, PerLane::from_fn(|_| 1_000));
        options.decisions = 4;
        options.lanes.compute.window_grants = 1;
        let whole = options.whole_device("whole");
        let scheduler = Scheduler::new(options, Arc::new(VirtualClock::new())).expect("valid");
        let partition = scheduler.add_partition(whole).expect("fits");
        let started = || {
            let task = scheduler.submit(TaskOptions::new("task", partition)).expect("fits");
            task.start().expect("admitted");
            Arc::new(task)
        };
        let under_turn = move |controller: &DispatchController, stream, task| {
            let mut request = fill(stream, memory, &[]);
            request.task = Some(task);
            let work = controller.submit(request).expect("room");
            controller.wait(work)
        };
        let (first, second) = (started(), started());
        let elsewhere = controller.clone();
        let other = thread::spawn(move || under_turn(&elsewhere, streams[1], second));
        assert_eq!(under_turn(&controller, streams[0], first), Ok(()));
        assert_eq!(other.join().expect("no panic"), Ok(()));
        assert!(scheduler.snapshot().expect("sound").is_idle());
    });
}

#[test]
fn work_racing_with_the_end_of_a_capture_is_captured_or_runs() {
    model(|| {
        let (device, controller, [stream, _]) = controller(4);
        let memory = device.allocate_device(1).expect("room");
        let capture = controller.begin_capture(stream).expect("idle");
        let elsewhere = controller.clone();
        let other = thread::spawn(move || elsewhere.submit(fill(stream, memory, &[])).is_ok());
        let graph = capture.end().expect("sound");
        let accepted = other.join().expect("no panic");
        controller.synchronize(stream).expect("sound");
        let ran = controller.recorder().totals().fills as usize;
        assert_eq!(graph.nodes().len() + ran, usize::from(accepted));
    });
}
