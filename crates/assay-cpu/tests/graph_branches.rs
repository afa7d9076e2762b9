//! Branches of a captured graph on the CPU: concurrent, ordered by their waits, failing together.

use assay_cpu::device::{CpuDevice, CpuKernel, CpuOptions};
use assay_runtime::backend::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn device() -> CpuDevice {
    CpuDevice::new(CpuOptions { memory_bytes: Some(1 << 24), workers: 2 }).expect("valid options")
}

fn kernel(device: &CpuDevice, body: impl Fn() -> Result<()> + Send + Sync + 'static) -> Launch {
    Launch {
        kernel: device.register_kernel(CpuKernel {
            name: "step".to_owned(),
            parameters: 0,
            check: None,
            body: Box::new(move |_| body()),
        }),
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        arguments: vec![],
    }
}

/// A graph of a root, one branch for each launch of `sides`, and a node that joins them.
fn fork_and_join(device: &CpuDevice, root: &Launch, sides: &[Launch], last: &Launch) -> GraphId {
    let origin = device.create_stream(StreamPriority::Normal).expect("sound");
    device.begin_capture(origin).expect("sound");
    device.launch(origin, root).expect("sound");
    let after_root = device.create_event().expect("sound");
    device.record_event(after_root, origin).expect("sound");
    for side in sides {
        let stream = device.create_stream(StreamPriority::Normal).expect("sound");
        device.wait_event(stream, after_root).expect("sound");
        device.launch(stream, side).expect("sound");
        let end = device.create_event().expect("sound");
        device.record_event(end, stream).expect("sound");
        device.wait_event(origin, end).expect("sound");
    }
    device.launch(origin, last).expect("sound");
    device.end_capture(origin).expect("sound")
}

#[test]
fn branches_run_at_the_same_time_and_after_what_they_wait_for() {
    let device = device();
    let order = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&order);
    let root = kernel(&device, move || {
        count.store(1, Ordering::SeqCst);
        Ok(())
    });
    // Four branches that each wait until all of them have begun: one after the other they never end.
    let met = Arc::new((Mutex::new(0), Condvar::new()));
    let sides: Vec<Launch> = (0..4)
        .map(|_| {
            let (met, order) = (Arc::clone(&met), Arc::clone(&order));
            kernel(&device, move || {
                assert_eq!(order.load(Ordering::SeqCst), 1, "before the root");
                let (here, changed) = &*met;
                let mut here = here.lock().expect("sound");
                *here += 1;
                changed.notify_all();
                let (_here, late) = changed
                    .wait_timeout_while(here, Duration::from_secs(20), |here| *here % 4 != 0)
                    .expect("sound");
                assert!(!late.timed_out(), "the branches did not meet");
                Ok(())
            })
        })
        .collect();
    let count = Arc::clone(&order);
    let reached = Arc::clone(&met);
    let last = kernel(&device, move || {
        assert_eq!(*reached.0.lock().expect("sound") % 4, 0, "before a branch");
        count.store(2, Ordering::SeqCst);
        Ok(())
    });
    let graph = fork_and_join(&device, &root, &sides, &last);
    for _ in 0..20 {
        device.launch_graph(graph, device.default_stream()).expect("sound");
        assert_eq!(order.load(Ordering::SeqCst), 2);
    }
    let side = device.create_stream(StreamPriority::Normal).expect("sound");
    device.launch_graph(graph, side).expect("sound");
    device.synchronize_stream(side).expect("sound");
}

#[test]
fn a_failing_branch_fails_the_replay_and_the_next_one_runs() {
    let device = device();
    let fails = Arc::new(AtomicU32::new(1));
    let failing = Arc::clone(&fails);
    let nothing = kernel(&device, || Ok(()));
    let side = kernel(&device, move || match failing.load(Ordering::SeqCst) {
        1 => panic!("planned"),
        _ => Ok(()),
    });
    let ran = Arc::new(AtomicU32::new(0));
    let runs = Arc::clone(&ran);
    let last = kernel(&device, move || {
        runs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let sides = [nothing.clone(), side];
    let graph = fork_and_join(&device, &nothing, &sides, &last);
    let failed = device.launch_graph(graph, device.default_stream());
    match failed.expect_err("planned") {
        BackendError::Asynchronous { node, message, .. } => {
            assert_eq!(node, Some(2));
            assert!(message.contains("planned"), "{message}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0, "behind a failure");
    fails.store(0, Ordering::SeqCst);
    device.launch_graph(graph, device.default_stream()).expect("sound");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn a_trace_has_the_overlapping_times_of_branches() {
    let device = device();
    let nothing = kernel(&device, || Ok(()));
    let sleep = kernel(&device, || {
        std::thread::sleep(Duration::from_millis(30));
        Ok(())
    });
    let sides = [sleep.clone(), sleep];
    let graph = fork_and_join(&device, &nothing, &sides, &nothing);
    let tracer = device.tracer().expect("CPUs keep times");
    tracer.start(100).expect("sound");
    assay_runtime::trace::with_ticket(7, || device.launch_graph(graph, device.default_stream()))
        .expect("sound");
    let kept = tracer.stop().expect("sound");
    assert_eq!(kept.works.len(), 1);
    let spans = kept.of(&kept.works[0]);
    assert_eq!(spans.len(), 4);
    let (first, second) = (spans[1], spans[2]);
    assert!(first.start_ns < second.end_ns && second.start_ns < first.end_ns);
    assert!(spans[3].start_ns >= first.end_ns.max(second.end_ns));
}

#[test]
fn a_delay_waits_as_long_as_its_slot_says() {
    let device = device();
    let slot = device.allocate_device(DELAY_SLOT_BYTES).expect("sound");
    let staged = device.allocate_host(DELAY_SLOT_BYTES).expect("sound");
    let delay = Launch {
        kernel: device.register_delay(),
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        arguments: vec![KernelArgument::Pointer(slot)],
    };
    let stream = device.default_stream();
    for requested in [0_u64, 300_000, 2_000_000] {
        let mut words = [0; 16];
        words[..8].copy_from_slice(&requested.to_ne_bytes());
        device.write_host(staged, &words).expect("sound");
        device.copy(stream, staged.into(), slot.into(), DELAY_SLOT_BYTES).expect("sound");
        let before = device.clock().now_ns();
        device.launch(stream, &delay).expect("sound");
        let passed = device.clock().now_ns() - before;
        let words = device.memory().snapshot(slot.into(), 16).expect("sound");
        let spent = u64::from_ne_bytes(words[8..].try_into().expect("sound"));
        assert!(spent >= requested && spent <= passed, "{requested} {spent} {passed}");
    }
    let past_the_end =
        Launch { arguments: vec![KernelArgument::Pointer(DevicePointer(slot.0 + 8))], ..delay };
    let refused = device.launch(stream, &past_the_end);
    assert_eq!(refused.expect_err("outside").code(), "out_of_bounds");
}
