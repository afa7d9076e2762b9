//! The contract of backends as a test suite that runs on any of them.
//!
//! A clause that does not hold is returned as a [`Violation`], so that the same checks serve tests
//! and diagnosis.

mod graphs;
mod memory;
mod order;

use super::{
    Backend, DevicePointer, HostPointer, KernelArgument, KernelId, Launch, StreamId, StreamPriority,
};
use std::fmt;

/// A clause of a contract that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The clause.
    pub clause: &'static str,
    /// What it demands.
    pub expected: String,
    /// What happened.
    pub got: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "contract broken, {}: expected {}, got {}", self.clause, self.expected, self.got)
    }
}

impl std::error::Error for Violation {}

type Outcome<T = ()> = Result<T, Violation>;

/// Size of the buffers: large enough that a copy takes time.
const BYTES: u64 = 1 << 20;

/// Runs every clause against a backend.
///
/// `increment` is a kernel of the backend that adds one, wrapping, to each of the first n bytes at
/// a device address; its arguments are that address and n as `U64`.
pub fn check(backend: &dyn Backend, increment: KernelId) -> Outcome {
    let checker = Checker { backend, increment };
    checker.memory()?;
    checker.copies()?;
    checker.bounds()?;
    checker.stream_order()?;
    checker.events()?;
    checker.destroyed_handles()?;
    checker.launches()?;
    checker.graphs()?;
    checker.capture_rules()
}

struct Checker<'a> {
    backend: &'a dyn Backend,
    increment: KernelId,
}

/// Expects success.
fn ok<T>(clause: &'static str, outcome: super::Result<T>) -> Outcome<T> {
    outcome.map_err(|error| Violation {
        clause,
        expected: "success".to_owned(),
        got: error.to_string(),
    })
}

/// Expects the error with this code.
fn fails<T>(clause: &'static str, code: &'static str, outcome: super::Result<T>) -> Outcome {
    let got = match outcome {
        Ok(_) => "success".to_owned(),
        Err(error) if error.code() == code => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(Violation { clause, expected: format!("the error {code}"), got })
}

fn same<T: PartialEq + fmt::Debug>(clause: &'static str, expected: T, got: T) -> Outcome {
    if expected == got {
        return Ok(());
    }
    Err(Violation { clause, expected: format!("{expected:?}"), got: format!("{got:?}") })
}

/// Pseudorandom bytes for a seed.
fn pattern(seed: u64) -> Vec<u8> {
    let mixed = |index: u64| {
        let value = (index ^ (seed << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (value >> 56) as u8
    };
    (0..BYTES).map(mixed).collect()
}

impl Checker<'_> {
    fn device(&self) -> Outcome<DevicePointer> {
        ok("device allocation", self.backend.allocate_device(BYTES))
    }

    fn host(&self) -> Outcome<HostPointer> {
        ok("host allocation", self.backend.allocate_host(BYTES))
    }

    fn stream(&self) -> Outcome<StreamId> {
        let created = self.backend.create_stream(StreamPriority::Normal);
        ok("stream creation", created)
    }

    fn free(&self, device: &[DevicePointer], host: &[HostPointer]) -> Outcome {
        for pointer in device {
            ok("device free", self.backend.free_device(*pointer))?;
        }
        for pointer in host {
            ok("host free", self.backend.free_host(*pointer))?;
        }
        Ok(())
    }

    /// The device bytes after all work of the stream.
    fn download(&self, stream: StreamId, source: DevicePointer) -> Outcome<Vec<u8>> {
        let clause = "download";
        let host = self.host()?;
        ok(clause, self.backend.copy(stream, source.into(), host.into(), BYTES))?;
        ok(clause, self.backend.synchronize_stream(stream))?;
        let mut bytes = vec![0; BYTES as usize];
        ok(clause, self.backend.read_host(host, &mut bytes))?;
        self.free(&[], &[host])?;
        Ok(bytes)
    }

    fn fill(&self, stream: StreamId, destination: DevicePointer, value: u8) -> Outcome {
        let filled = self.backend.fill(stream, destination.into(), value, BYTES);
        ok("fill", filled)
    }

    fn expect_fill(&self, clause: &'static str, bytes: &[u8], value: u8) -> Outcome {
        same(
            clause,
            Some(value),
            bytes.iter().copied().find(|byte| *byte != value).or(bytes.first().copied()),
        )
    }

    fn increment(&self, stream: StreamId, pointer: DevicePointer) -> super::Result<()> {
        self.backend.launch(
            stream,
            &Launch {
                kernel: self.increment,
                grid: [1, 1, 1],
                block: [1, 1, 1],
                shared_bytes: 0,
                arguments: vec![KernelArgument::Pointer(pointer), KernelArgument::U64(BYTES)],
            },
        )
    }
}
