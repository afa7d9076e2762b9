//! The simulated device: exact times, overlap, priorities, faults, determinism.

use assay_runtime::backend::*;
use assay_runtime::sim::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Calls take no time and links move 1 byte per nanosecond, so that times are easy to compute.
fn unit_profile() -> SimProfile {
    let link = Link { bytes_per_second: 1_000_000_000, latency_ns: 0 };
    let memory = MemoryModel {
        capacity_bytes: 64 * MIB,
        allocate_ns: 0,
        allocate_ns_per_mib: 0,
        free_ns: 0,
    };
    SimProfile {
        name: "plain".to_owned(),
        device_memory: memory,
        host_memory: memory,
        host_to_device: link,
        device_to_host: link,
        device_to_device: link,
        host_to_host: link,
        device_fill: link,
        host_fill: link,
        enqueue_ns: 0,
        query_ns: 1,
        alignment_bytes: 256,
    }
}

fn device_with(contents: Contents) -> SimBackend {
    SimBackend::new(SimOptions {
        profile: unit_profile(),
        contents,
        record_timeline: true,
        ..SimOptions::default()
    })
    .expect("valid options")
}

fn device() -> SimBackend {
    device_with(Contents::Kept)
}

fn delay(device: &SimBackend, nanoseconds: u64) -> Launch {
    let kernel = device
        .register_kernel(SimKernel {
            name: "delay".to_owned(),
            parameters: 0,
            duration_ns: Box::new(move |_| nanoseconds),
            body: None,
        })
        .expect("kernel");
    Launch { kernel, grid: [1; 3], block: [1; 3], shared_bytes: 0, arguments: Vec::new() }
}

#[test]
fn engines_overlap_and_each_runs_one_operation() -> Result<()> {
    let device = device();
    let (up, down, up_again) = (
        device.create_stream(StreamPriority::Normal)?,
        device.create_stream(StreamPriority::Normal)?,
        device.create_stream(StreamPriority::Normal)?,
    );
    let (memory, host) = (device.allocate_device(4_000)?, device.allocate_host(4_000)?);
    let at = |offset| Address::from(memory).offset(offset).expect("small");
    let host_at = |offset| Address::from(host).offset(offset).expect("small");
    device.copy(up, host.into(), at(0), 1_000)?;
    device.copy(down, at(1_000), host_at(1_000), 500)?;
    device.copy(up_again, host_at(2_000), at(2_000), 200)?;
    device.launch(down, &delay(&device, 50))?;
    for stream in [up, down, up_again] {
        device.synchronize_stream(stream)?;
    }
    let times: Vec<_> = device
        .take_timeline()?
        .iter()
        .map(|span| (span.stream, span.engine, span.start_ns, span.end_ns))
        .collect();
    assert_eq!(
        times,
        [
            (down, Engine::Download, 0, 500),
            (down, Engine::Compute, 500, 550),
            (up, Engine::Upload, 0, 1_000),
            (up_again, Engine::Upload, 1_000, 1_200),
        ]
    );
    Ok(())
}

#[test]
fn priority_streams_run_first_and_a_waiting_stream_blocks_no_other() -> Result<()> {
    let device = device();
    let [low, high, held] = [StreamPriority::Low, StreamPriority::High, StreamPriority::Normal]
        .map(|priority| device.create_stream(priority).expect("stream"));
    let work = delay(&device, 100);
    let event = device.create_event()?;
    for _ in 0..3 {
        device.launch(low, &work)?;
    }
    device.record_event(event, low)?;
    device.wait_event(held, event)?;
    device.launch(held, &work)?;
    // The first low-priority launch already runs when the high-priority one is queued.
    device.virtual_clock().advance_ns(10);
    device.launch(high, &work)?;
    device.synchronize_stream(held)?;
    let order: Vec<_> =
        device.take_timeline()?.iter().map(|span| (span.stream, span.start_ns)).collect();
    assert_eq!(order, [(low, 0), (high, 100), (low, 200), (low, 300), (held, 400)]);
    Ok(())
}

#[test]
fn work_takes_effect_at_completion() -> Result<()> {
    let device = device();
    let stream = device.default_stream();
    let memory = device.allocate_device(1_000)?;
    let mut seen = [0_u8];
    device.fill(stream, memory.into(), 7, 1_000)?;
    device.virtual_clock().advance_ns(999);
    device.peek(memory.into(), &mut seen)?;
    assert_eq!(seen, [FRESH_BYTE]);
    device.virtual_clock().advance_ns(1);
    device.peek(memory.into(), &mut seen)?;
    assert_eq!(seen, [7]);
    Ok(())
}

#[test]
fn freeing_waits_for_queued_work() -> Result<()> {
    let device = device();
    let (memory, other) = (device.allocate_device(1_000)?, device.allocate_device(1)?);
    device.fill(device.default_stream(), memory.into(), 7, 1_000)?;
    device.free_device(other)?;
    assert_eq!(device.clock().now_ns(), 1_000);
    assert!(device.query_stream(device.default_stream())?);
    Ok(())
}

#[test]
fn allocation_calls_cost_host_time_by_size() -> Result<()> {
    let mut profile = unit_profile();
    profile.host_memory.allocate_ns = 10;
    profile.host_memory.allocate_ns_per_mib = 3;
    let device = SimBackend::new(SimOptions { profile, ..SimOptions::default() })?;
    device.allocate_host(2 * MIB)?;
    assert_eq!(device.clock().now_ns(), 16);
    device.allocate_device(2 * MIB)?;
    assert_eq!(device.clock().now_ns(), 16);
    Ok(())
}

#[test]
fn dropped_contents_keep_bounds_and_times() -> Result<()> {
    let device = device_with(Contents::Dropped);
    let stream = device.default_stream();
    let (memory, host) = (device.allocate_device(1_000)?, device.allocate_host(1_000)?);
    device.write_host(host, &[1; 1_000])?;
    device.copy(stream, host.into(), memory.into(), 1_000)?;
    device.synchronize_stream(stream)?;
    assert_eq!(device.clock().now_ns(), 1_000, "the copy and nothing else");
    let past = device.copy(stream, host.into(), memory.into(), 1_001);
    assert_eq!(past.map_err(|e| e.code()), Err("out_of_bounds"));
    let read = device.read_host(host, &mut [0]);
    assert_eq!(read.map_err(|e| e.code()), Err("contents_not_kept"));
    Ok(())
}

#[test]
fn injected_fault_hits_the_nth_call_only() -> Result<()> {
    let device = device();
    device.inject(Fault {
        operation: Operation::AllocateDevice,
        occurrence: 2,
        moment: FaultMoment::AtCall,
    })?;
    assert!(device.allocate_device(1).is_ok());
    assert_eq!(
        device.allocate_device(1),
        Err(BackendError::Injected { operation: Operation::AllocateDevice, occurrence: 2 })
    );
    assert!(device.allocate_device(1).is_ok());
    assert_eq!(device.calls(Operation::AllocateDevice), Ok(3));
    assert_eq!(device.used_bytes(Space::Device), Ok(2));
    Ok(())
}

#[test]
fn device_fault_stops_its_stream_and_waiting_streams() -> Result<()> {
    let device = device();
    let failing = device.create_stream(StreamPriority::Normal)?;
    let waiting = device.create_stream(StreamPriority::Normal)?;
    let free = device.create_stream(StreamPriority::Normal)?;
    let memory = device.allocate_device(30)?;
    let at = |offset| Address::from(memory).offset(offset).expect("small");
    device.inject(Fault {
        operation: Operation::Fill,
        occurrence: 1,
        moment: FaultMoment::OnDevice,
    })?;
    let event = device.create_event()?;
    device.fill(failing, at(0), 1, 10)?;
    device.record_event(event, failing)?;
    device.wait_event(waiting, event)?;
    device.fill(waiting, at(10), 2, 10)?;
    device.fill(free, at(20), 3, 10)?;

    let expected = Err(BackendError::Asynchronous {
        operation: Operation::Fill,
        stream: failing,
        node: None,
        message: "injected by the fault plan".into(),
    });
    assert_eq!(device.synchronize_stream(free), Ok(()));
    assert_eq!(device.synchronize_stream(failing), expected);
    assert_eq!(device.synchronize_stream(waiting), expected);
    assert_eq!(device.synchronize_event(event), expected);
    let mut bytes = [0; 30];
    device.peek(memory.into(), &mut bytes)?;
    assert_eq!(bytes[..20], [FRESH_BYTE; 20]);
    assert_eq!(bytes[20..], [3; 10]);

    // A recovered stream runs what is queued from then on; earlier events stay failed.
    device.fill(failing, at(0), 4, 10)?;
    device.recover_stream(failing)?;
    device.recover_stream(waiting)?;
    device.recover_stream(free)?;
    device.fill(waiting, at(10), 5, 10)?;
    assert_eq!(device.synchronize_stream(failing), Ok(()));
    assert_eq!(device.synchronize_stream(waiting), Ok(()));
    assert_eq!(device.synchronize_event(event), expected);
    device.peek(memory.into(), &mut bytes)?;
    assert_eq!(bytes[..10], [FRESH_BYTE; 10]);
    assert_eq!(bytes[10..20], [5; 10]);
    Ok(())
}

#[test]
fn two_devices_can_share_one_clock() -> Result<()> {
    let first = device();
    let second = SimBackend::new(SimOptions {
        profile: unit_profile(),
        clock: first.virtual_clock().clone(),
        ..SimOptions::default()
    })?;
    let memory = second.allocate_device(100)?;
    second.fill(second.default_stream(), memory.into(), 1, 100)?;
    first.launch(first.default_stream(), &delay(&first, 500))?;
    first.synchronize_stream(first.default_stream())?;
    assert!(second.query_stream(second.default_stream())?);
    Ok(())
}

#[test]
fn graph_branches_overlap_on_replay() -> Result<()> {
    let device = device();
    let (main, side) = (device.default_stream(), device.create_stream(StreamPriority::Normal)?);
    let (memory, host) = (device.allocate_device(1_000)?, device.allocate_host(1_000)?);
    let (fork, join) = (device.create_event()?, device.create_event()?);
    let work = delay(&device, 300);
    device.begin_capture(main)?;
    device.record_event(fork, main)?;
    device.wait_event(side, fork)?;
    device.copy(side, host.into(), memory.into(), 400)?;
    device.record_event(join, side)?;
    device.launch(main, &work)?;
    device.wait_event(main, join)?;
    device.launch(main, &work)?;
    let graph = device.end_capture(main)?;
    device.launch_graph(graph, main)?;
    device.destroy_graph(graph)?;
    device.synchronize_stream(main)?;
    let times: Vec<_> = device
        .take_timeline()?
        .iter()
        .map(|span| (span.engine, span.start_ns, span.end_ns))
        .collect();
    assert_eq!(
        times,
        [(Engine::Compute, 0, 300), (Engine::Upload, 0, 400), (Engine::Compute, 400, 700),]
    );
    Ok(())
}

/// Queues the same random work and returns everything observable.
fn run_random(seed: &[(u8, u8, u16)]) -> Result<(Vec<SimSpan>, u64, Vec<u8>)> {
    let device = device();
    let streams: Vec<StreamId> =
        (0..3).map(|_| device.create_stream(StreamPriority::Normal)).collect::<Result<_>>()?;
    let events: Vec<EventId> = (0..3).map(|_| device.create_event()).collect::<Result<_>>()?;
    let (memory, host) = (device.allocate_device(70_000)?, device.allocate_host(70_000)?);
    for &(action, which, bytes) in seed {
        let stream = streams[usize::from(which) % 3];
        let event = events[usize::from(which / 3) % 3];
        let bytes = u64::from(bytes);
        match action % 6 {
            0 => device.copy(stream, host.into(), memory.into(), bytes)?,
            1 => device.copy(stream, memory.into(), host.into(), bytes)?,
            2 => device.fill(stream, memory.into(), which, bytes)?,
            3 => device.record_event(event, stream)?,
            4 => device.wait_event(stream, event)?,
            _ => device.virtual_clock().advance_ns(bytes),
        }
    }
    for stream in streams {
        device.synchronize_stream(stream)?;
    }
    let mut bytes = vec![0; 70_000];
    device.peek(memory.into(), &mut bytes)?;
    Ok((device.take_timeline()?, device.clock().now_ns(), bytes))
}

proptest! {
    #[test]
    fn same_calls_give_the_same_times_and_bytes(
        calls in prop::collection::vec(any::<(u8, u8, u16)>(), 1..60)
    ) {
        let first = run_random(&calls).expect("valid calls");
        prop_assert_eq!(&first, &run_random(&calls).expect("valid calls"));
        // Work of one stream and work on one engine never overlap in time.
        for (index, span) in first.0.iter().enumerate() {
            for other in &first.0[..index] {
                if span.stream == other.stream || span.engine == other.engine {
                    prop_assert!(other.end_ns <= span.start_ns);
                }
            }
        }
    }
}
