//! Clauses on streams, events and launches.

use super::{BYTES, Checker, Outcome, fails, ok, same};
use crate::backend::{KernelArgument, KernelId, Launch, StreamId, StreamPriority};

impl Checker<'_> {
    pub(super) fn stream_order(&self) -> Outcome {
        let stream = self.stream()?;
        let device = self.device()?;
        for value in 1..=5 {
            self.fill(stream, device, value)?;
        }
        let bytes = self.download(stream, device)?;
        self.expect_fill("a stream keeps its order", &bytes, 5)?;
        let idle = ok("query of a stream", self.backend.query_stream(stream))?;
        same("a synchronized stream is idle", true, idle)?;
        let high = self.backend.create_stream(StreamPriority::High);
        let high = ok("stream creation", high)?;
        same("streams are distinct", true, high != stream)?;
        for stream in [stream, high] {
            ok("stream destruction", self.backend.destroy_stream(stream))?;
        }
        let outcome = self.backend.destroy_stream(self.backend.default_stream());
        fails("destruction of the default stream", "default_stream", outcome)?;
        self.free(&[device], &[])
    }

    pub(super) fn events(&self) -> Outcome {
        let backend = self.backend;
        let (writer, reader) = (self.stream()?, self.stream()?);
        let (device, host) = (self.device()?, self.host()?);
        let clause = "events";
        let first = ok(clause, backend.create_event())?;
        let last = ok(clause, backend.create_event())?;
        let never = ok(clause, backend.query_event(first))?;
        same("an event never recorded counts as complete", true, never)?;
        ok(clause, backend.wait_event(reader, first))?;
        fails(
            "time of an event never recorded",
            "event_not_finished",
            backend.elapsed_ns(first, last),
        )?;

        // Uploads and the download run on different engines: only the wait keeps them in order.
        ok(clause, backend.record_event(first, writer))?;
        for _ in 0..8 {
            let uploaded = backend.copy(writer, host.into(), device.into(), BYTES);
            ok(clause, uploaded)?;
        }
        self.fill(writer, device, 39)?;
        ok(clause, backend.record_event(last, writer))?;
        ok(clause, backend.wait_event(reader, last))?;
        let bytes = self.download(reader, device)?;
        self.expect_fill("a wait orders two streams", &bytes, 39)?;

        let finished = ok(clause, backend.query_event(last))?;
        same("an awaited event is complete", true, finished)?;
        ok(clause, backend.synchronize_event(first))?;
        let elapsed = ok(clause, backend.elapsed_ns(first, last))?;
        same("work takes time", true, elapsed > 0)?;

        self.fill(writer, device, 3)?;
        ok(clause, backend.record_event(first, writer))?;
        let before = backend.clock().now_ns();
        while !ok(clause, backend.query_event(first))? {
            std::thread::yield_now();
        }
        let after = backend.clock().now_ns();
        same("the clock is monotonic", true, after >= before)?;
        for event in [first, last] {
            ok("event destruction", backend.destroy_event(event))?;
        }
        for stream in [writer, reader] {
            ok("stream destruction", backend.destroy_stream(stream))?;
        }
        self.free(&[device], &[host])
    }

    pub(super) fn destroyed_handles(&self) -> Outcome {
        let backend = self.backend;
        let device = self.device()?;
        let stream = self.stream()?;
        let event = ok("event creation", backend.create_event())?;
        ok("stream destruction", backend.destroy_stream(stream))?;
        ok("event destruction", backend.destroy_event(event))?;
        let default = backend.default_stream();
        let unknown_stream: [crate::backend::Result<()>; 7] = [
            backend.destroy_stream(stream),
            backend.query_stream(stream).map(|_| ()),
            backend.synchronize_stream(stream),
            backend.fill(stream, device.into(), 0, BYTES),
            self.increment(stream, device),
            backend.begin_capture(StreamId::HOST),
            backend.is_capturing(stream).map(|_| ()),
        ];
        for outcome in unknown_stream {
            fails("use of a destroyed stream", "unknown_stream", outcome)?;
        }
        let unknown_event: [crate::backend::Result<()>; 5] = [
            backend.destroy_event(event),
            backend.record_event(event, default),
            backend.wait_event(default, event),
            backend.query_event(event).map(|_| ()),
            backend.synchronize_event(event),
        ];
        for outcome in unknown_event {
            fails("use of a destroyed event", "unknown_event", outcome)?;
        }
        self.free(&[device], &[])
    }

    pub(super) fn launches(&self) -> Outcome {
        let (backend, stream) = (self.backend, self.backend.default_stream());
        let device = self.device()?;
        self.fill(stream, device, 254)?;
        for _ in 0..3 {
            ok("launch", self.increment(stream, device))?;
        }
        let bytes = self.download(stream, device)?;
        self.expect_fill("launches run in order", &bytes, 1)?;
        let arguments = vec![KernelArgument::Pointer(device), KernelArgument::U64(BYTES)];
        let good = Launch {
            kernel: self.increment,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            arguments,
        };
        let mut fewer = good.clone();
        fewer.arguments.pop();
        let mut empty = good.clone();
        empty.grid = [1, 0, 1];
        let mut unknown = good;
        unknown.kernel = KernelId(u64::MAX);
        for (code, launch) in
            [("argument_count", fewer), ("empty_launch", empty), ("unknown_kernel", unknown)]
        {
            fails("wrong launch", code, backend.launch(stream, &launch))?;
        }
        self.free(&[device], &[])
    }
}
