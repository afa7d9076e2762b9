//! Delays on the simulated device, and graphs captured anew with delays before their nodes.

use assay_runtime::backend::*;
use assay_runtime::dispatch::*;
use assay_runtime::sim::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const SLOTS: u64 = 16;

struct World {
    device: Arc<SimBackend>,
    controller: DispatchController,
    delay: KernelId,
    slots: DevicePointer,
    staged: HostPointer,
}

impl World {
    fn new() -> Self {
        let mut profile = SimProfile::generic();
        profile.enqueue_ns = 0;
        let options = SimOptions { profile, ..SimOptions::default() };
        let device = Arc::new(SimBackend::new(options).expect("valid"));
        let delay = device.register_delay().expect("sound");
        assert_eq!(device.register_delay(), Ok(delay));
        let recorder = Arc::new(Recorder::new(1_000));
        let controller =
            DispatchController::new(device.clone(), DispatchOptions::default(), recorder);
        let slots = device.allocate_device(SLOTS * DELAY_SLOT_BYTES).expect("room");
        let staged = device.allocate_host(SLOTS * DELAY_SLOT_BYTES).expect("room");
        World { controller: controller.expect("valid"), device, delay, slots, staged }
    }

    fn stream(&self) -> StreamId {
        let created = self.controller.create_stream(StreamPriority::Normal);
        created.expect("sound")
    }

    /// Sets the durations, and the times spent to zero.
    fn set(&self, durations: &[u64]) {
        let mut bytes = vec![0; (SLOTS * DELAY_SLOT_BYTES) as usize];
        for (slot, duration) in bytes.chunks_mut(16).zip(durations) {
            slot[..8].copy_from_slice(&duration.to_ne_bytes());
        }
        self.device.write_host(self.staged, &bytes).expect("room");
        let stream = self.device.default_stream();
        self.device.copy(stream, self.staged.into(), self.slots.into(), 256).expect("room");
        self.device.synchronize_stream(stream).expect("sound");
    }

    fn spent(&self, slot: u64) -> u64 {
        let mut word = [0; 8];
        let address = DevicePointer(self.slots.0 + slot * DELAY_SLOT_BYTES + 8);
        self.device.peek(address.into(), &mut word).expect("inside");
        u64::from_ne_bytes(word)
    }

    fn launch(&self, slot: u64) -> Launch {
        Launch {
            kernel: self.delay,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments: vec![KernelArgument::Pointer(DevicePointer(
                self.slots.0 + slot * DELAY_SLOT_BYTES,
            ))],
        }
    }

    fn submit(&self, name: &str, stream: StreamId, slot: u64, after: &[WorkId]) -> WorkId {
        let mut request = WorkRequest::new(name, stream, Work::Launch(self.launch(slot)));
        request.after = after.to_vec();
        self.controller.submit(request).expect("accepted")
    }

    /// Virtual nanoseconds of one replay, between events before and after it.
    fn replay(&self, graph: &Arc<Graph>, stream: StreamId) -> u64 {
        let events = [0, 1].map(|_| self.device.create_event().expect("sound"));
        self.device.record_event(events[0], stream).expect("sound");
        let work = Work::Graph(Arc::clone(graph));
        let work = self.controller.submit(WorkRequest::new("step", stream, work));
        work.expect("accepted");
        self.device.record_event(events[1], stream).expect("sound");
        self.controller.synchronize(stream).expect("ran");
        self.device.elapsed_ns(events[0], events[1]).expect("both ran")
    }
}

#[test]
fn delays_of_two_streams_pass_at_the_same_time() {
    let world = World::new();
    let (one, other) = (world.stream(), world.stream());
    world.set(&[5_000, 3_000]);
    let before = world.device.clock().now_ns();
    world.submit("one", one, 0, &[]);
    world.submit("other", other, 1, &[]);
    world.submit("other again", other, 1, &[]);
    for stream in [one, other] {
        world.device.synchronize_stream(stream).expect("sound");
    }
    let passed = world.device.clock().now_ns() - before;
    assert!((6_000..6_000 + 20 * 500).contains(&passed), "{passed}");
    assert_eq!([world.spent(0), world.spent(1)], [5_000, 6_000]);
}

#[test]
fn a_delay_before_a_node_moves_what_comes_after_it_and_nothing_else() {
    let world = World::new();
    let (main, side) = (world.stream(), world.stream());
    // Slots 0 to 3 are the work: root, then a branch on each stream, then a node that joins them.
    let capture = world.controller.begin_capture(main).expect("idle");
    let root = world.submit("root", main, 0, &[]);
    world.submit("left", main, 1, &[]);
    let right = world.submit("right", side, 2, &[root]);
    world.submit("join", main, 3, &[right]);
    let graph = Arc::new(capture.end().expect("joined"));
    let after: Vec<&[u32]> = graph.nodes().iter().map(|node| &node.after[..]).collect();
    // The event of the side stream is recorded behind everything on the main one so far.
    assert_eq!(after, [&[][..], &[], &[1], &[2]]);

    let streams = [world.stream(), world.stream()];
    let before: BTreeMap<u32, Launch> =
        (0..4).map(|node| (node, world.launch(4 + u64::from(node)))).collect();
    let name = Arc::from("delay");
    let delayed = world.controller.recapture(&graph, &streams, &name, &before).expect("captured");
    let delayed = Arc::new(delayed);
    let names: Vec<&str> = delayed.nodes().iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["delay", "root", "delay", "left", "delay", "right", "delay", "join"]);

    let work = [1_000, 2_000, 4_000, 500];
    let stream = world.device.default_stream();
    let time = |delays: [u64; 4]| {
        world.set(&[&work[..], &delays[..]].concat());
        world.replay(&delayed, stream)
    };
    // The first replay makes fewer calls of the host before it begins.
    time([0; 4]);
    let base = time([0; 4]);
    for (delays, added) in [
        ([0, 0, 0, 0], 0),
        ([700, 0, 0, 0], 700),
        ([0, 700, 0, 0], 700),
        ([0, 0, 700, 0], 700),
        ([0, 0, 0, 700], 700),
        ([100, 200, 300, 400], 1_000),
    ] {
        assert_eq!(time(delays) - base, added, "{delays:?}");
        let spent: Vec<u64> = (4..8).map(|slot| world.spent(slot)).collect();
        assert_eq!(spent, delays);
    }
}

#[test]
fn a_branch_beside_a_longer_one_hides_delays_up_to_its_slack() {
    let world = World::new();
    let (main, side) = (world.stream(), world.stream());
    let capture = world.controller.begin_capture(main).expect("idle");
    let root = world.submit("root", main, 0, &[]);
    let right = world.submit("right", side, 2, &[root]);
    world.submit("left", main, 1, &[]);
    world.submit("join", main, 3, &[right]);
    let graph = capture.end().expect("joined");
    let before = BTreeMap::from([(1, world.launch(4)), (2, world.launch(5))]);
    let streams = [world.stream(), world.stream()];
    let delayed = world
        .controller
        .recapture(&graph, &streams, &Arc::from("delay"), &before)
        .expect("captured");
    let delayed = Arc::new(delayed);
    let time = |right: u64, left: u64| {
        world.set(&[1_000, 3_000, 4_000, 500, right, left]);
        world.replay(&delayed, world.device.default_stream())
    };
    time(0, 0);
    let base = time(0, 0);
    assert_eq!(time(600, 0) - base, 600, "the longer branch");
    assert_eq!(time(0, 600) - base, 0, "hidden: the slack is 1,000");
    assert_eq!(time(0, 1_700) - base, 700, "past the slack");
    drop(graph);
    assert_eq!(time(0, 1_700) - base, 700, "the first graph is not needed");
}

#[test]
fn wrong_streams_nodes_and_arguments_are_named() {
    let world = World::new();
    let main = world.stream();
    let capture = world.controller.begin_capture(main).expect("idle");
    world.submit("root", main, 0, &[]);
    let graph = capture.end().expect("joined");
    let name = Arc::from("delay");
    let refused = |streams: &[StreamId], before: &BTreeMap<u32, Launch>| {
        let outcome = world.controller.recapture(&graph, streams, &name, before);
        outcome.map(|_| ()).expect_err("refused").to_string()
    };
    assert!(refused(&[], &BTreeMap::new()).contains("expected one stream for each"));
    let unknown = BTreeMap::from([(1, world.launch(0))]);
    assert!(refused(&[main], &unknown).contains("expected indices of nodes"));
    let outside =
        Launch { arguments: vec![KernelArgument::Pointer(DevicePointer(8))], ..world.launch(0) };
    let outcome = world.device.launch(main, &outside);
    assert_eq!(outcome.expect_err("outside").code(), "unknown_address");
    let none = Launch { arguments: vec![], ..world.launch(0) };
    let outcome = world.device.launch(main, &none);
    assert_eq!(outcome.expect_err("no slot").code(), "argument_count");
}
