//! Clauses on capture and replay.

use super::{BYTES, Checker, Outcome, fails, ok, same};

impl Checker<'_> {
    pub(super) fn graphs(&self) -> Outcome {
        let backend = self.backend;
        let (main, side) = (self.stream()?, self.stream()?);
        let (device, other) = (self.device()?, self.device()?);
        let clause = "graphs";
        let fork = ok(clause, backend.create_event())?;
        let join = ok(clause, backend.create_event())?;
        self.fill(main, device, 10)?;
        self.fill(main, other, 0)?;
        ok(clause, backend.synchronize_stream(main))?;

        ok(clause, backend.begin_capture(main))?;
        ok(clause, self.increment(main, device))?;
        ok(clause, backend.record_event(fork, main))?;
        ok(clause, backend.wait_event(side, fork))?;
        let copied = backend.copy(side, device.into(), other.into(), BYTES);
        ok(clause, copied)?;
        ok(clause, self.increment(side, other))?;
        ok(clause, backend.record_event(join, side))?;
        ok(clause, backend.wait_event(main, join))?;
        ok(clause, self.increment(main, device))?;
        let graph = ok(clause, backend.end_capture(main))?;

        let untouched = self.download(main, device)?;
        self.expect_fill("captured work does not run", &untouched, 10)?;
        for (round, (expected, beside)) in [(12, 12), (14, 14), (16, 16)].into_iter().enumerate() {
            // The second and third launch are queued together, so one must not overtake the other.
            ok(clause, backend.launch_graph(graph, main))?;
            if round == 1 {
                continue;
            }
            let bytes = self.download(main, device)?;
            self.expect_fill("a graph runs its work in order", &bytes, expected)?;
            let bytes = self.download(main, other)?;
            self.expect_fill("a graph runs its branches", &bytes, beside)?;
        }
        ok(clause, backend.destroy_graph(graph))?;
        fails("launch of a destroyed graph", "unknown_graph", backend.launch_graph(graph, main))?;
        for event in [fork, join] {
            ok("event destruction", backend.destroy_event(event))?;
        }
        for stream in [main, side] {
            ok("stream destruction", backend.destroy_stream(stream))?;
        }
        self.free(&[device, other], &[])
    }

    pub(super) fn capture_rules(&self) -> Outcome {
        let backend = self.backend;
        let (main, side) = (self.stream()?, self.stream()?);
        let device = self.device()?;
        let clause = "capture";
        let outside = ok(clause, backend.create_event())?;
        let inside = ok(clause, backend.create_event())?;
        ok(clause, backend.record_event(outside, side))?;
        fails("end without a capture", "not_capturing", backend.end_capture(main))?;

        ok(clause, backend.begin_capture(main))?;
        ok(clause, backend.record_event(inside, main))?;
        let forbidden: [crate::backend::Result<()>; 6] = [
            backend.begin_capture(main),
            backend.query_stream(main).map(|_| ()),
            backend.synchronize_stream(main),
            backend.wait_event(main, outside),
            backend.query_event(inside).map(|_| ()),
            backend.synchronize_event(inside),
        ];
        for outcome in forbidden {
            fails("synchronization during capture", "capturing", outcome)?;
        }
        for (stream, expected) in [(main, true), (side, false)] {
            let captured = ok(clause, backend.is_capturing(stream))?;
            same("is_capturing is true for captured streams only", expected, captured)?;
        }
        ok(clause, backend.wait_event(side, inside))?;
        self.fill(side, device, 1)?;
        fails("end with an unjoined stream", "unjoined_capture", backend.end_capture(main))?;
        for stream in [main, side] {
            ok("a failed capture releases its streams", backend.synchronize_stream(stream))?;
            ok("stream destruction", backend.destroy_stream(stream))?;
        }
        for event in [outside, inside] {
            ok("event destruction", backend.destroy_event(event))?;
        }
        self.free(&[device], &[])
    }
}
