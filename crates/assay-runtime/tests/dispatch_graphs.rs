//! Capture and replay: nodes of a graph, uncapturable work, release of captured streams.

use assay_runtime::backend::*;
use assay_runtime::dispatch::*;
use assay_runtime::memory::contract;
use assay_runtime::memory::{MemoryResource, Pool, PoolOptions, Request};
use assay_runtime::sim::*;
use std::sync::Arc;

struct World {
    device: Arc<SimBackend>,
    controller: DispatchController,
    increment: KernelId,
    main: StreamId,
    side: StreamId,
    memory: DevicePointer,
}

fn world() -> World {
    world_of(DispatchOptions::default())
}

fn world_of(options: DispatchOptions) -> World {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid"));
    let increment = device
        .register_kernel(SimKernel {
            name: "increment".to_owned(),
            parameters: 1,
            duration_ns: Box::new(|_| 1_000),
            body: Some(Box::new(|launch, memory| match launch.arguments[..] {
                [KernelArgument::Pointer(pointer)] => memory.update(pointer.into(), 64, |bytes| {
                    bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                }),
                _ => Ok(()),
            })),
        })
        .expect("sound");
    let recorder = Arc::new(Recorder::new(1_000));
    let controller = DispatchController::new(device.clone(), options, recorder).expect("valid");
    let stream = || controller.create_stream(StreamPriority::Normal).expect("sound");
    let (main, side) = (stream(), stream());
    let memory = device.allocate_device(256).expect("room");
    let world = World { device, controller, increment, main, side, memory };
    let fill = Work::Fill { destination: memory.into(), value: 0, bytes: 256 };
    world.submit(WorkRequest::new("clear", main, fill));
    world.controller.synchronize(main).expect("sound");
    world
}

impl World {
    fn increment(&self, name: &str, stream: StreamId, cell: u64) -> WorkRequest {
        let pointer = DevicePointer(self.memory.0 + 64 * cell);
        let work = Work::Launch(Launch {
            kernel: self.increment,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments: vec![KernelArgument::Pointer(pointer)],
        });
        let mut request = WorkRequest::new(name, stream, work);
        (request.bytes, request.flops) = (128, 64.0);
        request
    }

    fn submit(&self, request: WorkRequest) -> WorkId {
        self.controller.submit(request).expect("accepted")
    }

    fn cells(&self) -> [u8; 4] {
        let mut bytes = [0; 256];
        self.device.peek(self.memory.into(), &mut bytes).expect("allocated");
        [bytes[0], bytes[64], bytes[128], bytes[192]]
    }

    fn host_copy(&self, name: &str, stream: StreamId) -> WorkRequest {
        let host = self.device.allocate_host(64).expect("room");
        let work = Work::Copy { source: self.memory.into(), destination: host.into(), bytes: 64 };
        WorkRequest::new(name, stream, work)
    }
}

#[test]
fn graph_replays_all_nodes_and_names_their_operations() {
    let world = world();
    let capture = world.controller.begin_capture(world.main).expect("idle");
    assert_eq!(capture.stream(), world.main);
    let first = world.submit(world.increment("norm", world.main, 0));
    let mut forked = world.increment("gate", world.side, 1);
    forked.after = vec![first];
    let forked = world.submit(forked);
    world.submit(world.increment("up", world.main, 2));
    let mut joined = world.increment("down", world.main, 3);
    joined.after = vec![forked];
    world.submit(joined);
    // Left on the second stream; the end joins it.
    world.submit(world.increment("cache", world.side, 1));
    let graph = Arc::new(capture.end().expect("sound"));
    assert_eq!(world.cells(), [0, 0, 0, 0], "captured, not run");
    let nodes: Vec<_> =
        graph.nodes().iter().map(|node| (node.index, &*node.name, node.stream)).collect();
    let (main, side) = (world.main, world.side);
    assert_eq!(
        nodes,
        [
            (0, "norm", main),
            (1, "gate", side),
            (2, "up", main),
            (3, "down", main),
            (4, "cache", side),
        ]
    );
    world.controller.recorder().take();
    for _ in 0..3 {
        let replay = Work::Graph(Arc::clone(&graph));
        world.submit(WorkRequest::new("decode step", world.main, replay));
    }
    world.controller.synchronize(world.main).expect("sound");
    assert_eq!(world.cells(), [3, 6, 3, 3]);
    let records = world.controller.recorder().take().records;
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!((record.kind, record.graph), (WorkKind::Graph, Some(graph.id())));
        assert_eq!((record.bytes, record.flops), (5 * 128, 5.0 * 64.0));
        assert!(record.span.expect("timed").duration_ns() >= 4_000);
    }
    // The second stream runs work again.
    let after = world.submit(world.increment("after", world.side, 0));
    world.controller.wait(after).expect("sound");
    assert_eq!(world.cells()[0], 4);
    let id = graph.id();
    drop(graph);
    let gone = world.device.launch_graph(id, world.main);
    assert_eq!(gone.map_err(|error| error.code()), Err("unknown_graph"));
}

#[test]
fn wait_for_a_graph_does_not_wait_for_the_graph_behind_it() {
    for timing in [Timing::Off, Timing::Full] {
        let world = world_of(DispatchOptions { timing, ..DispatchOptions::default() });
        let capture = world.controller.begin_capture(world.main).expect("idle");
        for _ in 0..8 {
            world.submit(world.increment("node", world.main, 0));
        }
        let graph = Arc::new(capture.end().expect("sound"));
        let replay = || {
            let work = Work::Graph(Arc::clone(&graph));
            world.submit(WorkRequest::new("step", world.main, work))
        };
        // A step is launched before the host waits for the one before it, as the engine does.
        let mut step = replay();
        for done in 1..=20 {
            let ahead = replay();
            world.controller.wait(step).expect("sound");
            let nodes = world.cells()[0];
            assert!((8 * done..8 * done + 8).contains(&nodes), "{timing:?}: {nodes} nodes ran");
            assert!(!world.controller.is_complete(ahead).expect("sound"));
            step = ahead;
        }
    }
}

#[test]
fn capturing_thread_cannot_allocate_or_copy_host_memory_outside() {
    let world = world();
    let pool = Pool::new(world.device.clone(), PoolOptions::new(Space::Device, 1 << 26));
    let pool = world.controller.record_memory(pool.expect("valid"), "device pool");
    let request = |stream| Request::new(100, stream);
    let before = pool.allocate(&request(world.side)).expect("no capture");
    let capture = world.controller.begin_capture(world.main).expect("idle");
    let refused = pool.allocate(&request(world.side)).expect_err("capturing");
    assert_eq!(
        refused.to_string(),
        format!(
            "allocate_device during capture: expected a stream outside any capture, got stream {} \
             inside one\nhint: end the capture first, or use another stream",
            world.main.0
        )
    );
    let refused = world.controller.submit(world.host_copy("logits", world.side));
    assert_eq!(
        refused.expect_err("not replayed").to_string(),
        format!(
            "host copy \"logits\" during capture: expected a stream of the capture begun on stream \
             {}, got stream {}\nhint: a copy outside would not be replayed",
            world.main.0, world.side.0
        )
    );
    // On the captured stream it is a node; other threads are not affected.
    world.submit(world.host_copy("tokens", world.main));
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            let copied = world.submit(world.host_copy("other", world.side));
            world.controller.wait(copied).expect("runs");
            let captured_stream = pool.allocate(&request(world.main));
            assert_eq!(captured_stream.map_err(|error| error.code()), Err("capturing"));
            pool.allocate(&request(world.side)).expect("another thread")
        });
        let allocation = elsewhere.join().expect("no panic");
        pool.deallocate(allocation, world.side).expect("allocated");
    });
    let graph = capture.end().expect("sound");
    assert_eq!(graph.nodes().len(), 1);
    pool.deallocate(before, world.side).expect("allocated");
    let again = pool.allocate(&request(world.main)).expect("over");
    pool.deallocate(again, world.main).expect("allocated");
    let totals = world.controller.recorder().totals();
    assert_eq!((totals.allocations, totals.frees, totals.allocated_bytes), (3, 3, 300));
    let records = world.controller.recorder().take().records;
    let sited = |record: &&WorkRecord| record.kind == WorkKind::Allocate;
    let site = records.iter().find(sited).and_then(|record| record.site).expect("known");
    assert!(site.file.ends_with("dispatch_graphs.rs"));
}

#[test]
fn uncapturable_work_is_refused_and_the_capture_continues() {
    let world = world();
    let large = world.device.allocate_device(1 << 26).expect("room");
    let fill = Work::Fill { destination: large.into(), value: 1, bytes: 1 << 26 };
    let outside = world.submit(WorkRequest::new("outside", world.side, fill));
    let capture = world.controller.begin_capture(world.main).expect("idle");
    let mut late = world.increment("late", world.main, 0);
    late.after = vec![outside];
    let refused = world.controller.submit(late.clone()).expect_err("not in the graph");
    assert_eq!(refused.code(), "capture_dependency");
    world.controller.wait(outside).expect("runs beside the capture");
    let node = world.submit(late);
    assert_eq!(world.controller.wait(node).map_err(|error| error.code()), Err("captured"));
    let nested = world.controller.begin_capture(world.main);
    assert_eq!(nested.map_err(|error| error.code()).err(), Some("capturing"));
    let graph = Arc::new(capture.end().expect("sound"));
    let capture = world.controller.begin_capture(world.main).expect("over");
    let inner = WorkRequest::new("inner", world.main, Work::Graph(Arc::clone(&graph)));
    assert_eq!(world.controller.submit(inner).map_err(|error| error.code()), Err("capturing"));
    drop(capture);
    // A node of an ended capture is invalid.
    let mut stale = world.increment("stale", world.side, 0);
    stale.after = vec![node];
    let stale = world.controller.submit(stale);
    assert_eq!(stale.map_err(|error| error.code()), Err("captured"));
}

#[test]
fn stream_with_waiting_work_cannot_begin_a_capture() {
    let device = Arc::new(SimBackend::new(SimOptions::default()).expect("valid"));
    let recorder = Arc::new(Recorder::new(10));
    let options = DispatchOptions { in_flight: 1, ..DispatchOptions::default() };
    let controller = DispatchController::new(device.clone(), options, recorder).expect("valid");
    let memory = device.allocate_device(1 << 26).expect("room");
    let stream = device.default_stream();
    for _ in 0..2 {
        let fill = Work::Fill { destination: memory.into(), value: 1, bytes: 1 << 26 };
        controller.submit(WorkRequest::new("fill", stream, fill)).expect("room");
    }
    let busy = controller.begin_capture(stream);
    assert_eq!(busy.map_err(|error| error.code()).err(), Some("capture_busy"));
    controller.synchronize(stream).expect("sound");
    drop(controller.begin_capture(stream).expect("idle"));
}

#[test]
fn capture_dropped_by_a_panic_releases_its_streams() {
    let world = world();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _capture = world.controller.begin_capture(world.main).expect("idle");
        let first = world.submit(world.increment("first", world.main, 0));
        let mut forked = world.increment("forked", world.side, 1);
        forked.after = vec![first];
        world.submit(forked);
        std::panic::resume_unwind(Box::new("injected"));
    }));
    assert!(outcome.is_err());
    for stream in [world.main, world.side] {
        world.submit(world.increment("after", stream, 2));
        world.controller.synchronize(stream).expect("runs again");
    }
    assert_eq!(world.cells(), [0, 0, 2, 0]);
}

#[test]
fn recorded_pool_passes_the_memory_contract() {
    let world = world();
    let options = PoolOptions::new(Space::Device, contract::MIN_CAPACITY_BYTES);
    let pool = Pool::new(world.device.clone(), options);
    let pool = world.controller.record_memory(pool.expect("valid"), "device pool");
    let backend: Arc<dyn Backend> = world.device.clone();
    contract::check(&backend, &pool).expect("contract");
    let totals = world.controller.recorder().totals();
    assert!(totals.allocations > 10 && totals.frees > 10);
}

#[test]
fn timed_replay_matches_a_replay_and_returns_spans() {
    let world = world();
    let capture = world.controller.begin_capture(world.main).expect("idle");
    let first = world.submit(world.increment("first", world.main, 0));
    assert!(first.is_captured());
    let mut forked = world.increment("second", world.side, 1);
    forked.after.push(first);
    world.submit(forked);
    world.submit(world.increment("third", world.main, 0));
    let graph = capture.end().expect("joined");
    assert_eq!(graph.bytes(), 3 * 128);
    let spans = world.controller.replay_timed("step", &graph, world.side).expect("replayed");
    assert_eq!(world.cells()[..2], [2, 1]);
    // The kernel takes 1,000 ns of virtual time, plus the profile's launch cost.
    assert_eq!(spans.len(), 3);
    for pair in spans.windows(2) {
        assert_eq!(pair[0].end_ns, pair[1].start_ns);
    }
    assert!(spans.iter().all(|span| span.duration_ns() >= 1_000));
    let records = world.controller.recorder().take().records;
    let last = records.last().expect("recorded");
    assert_eq!((last.kind, &*last.name), (WorkKind::Graph, "step"));
    assert_eq!(last.graph, Some(graph.id()));
    let span = last.span.expect("timed");
    assert_eq!(span.start_ns, spans[0].start_ns);
    assert_eq!(span.end_ns, spans[2].end_ns);
}
