//! The columns of the event table, and the kinds of event.

use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// The most rows of a batch, so that 16-bit keys number the texts of any of its columns.
pub const BATCH_ROWS: usize = 1 << 16;

/// What an event is; the first column of the table holds the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A kernel on a device.
    Kernel,
    /// A copy that the device made.
    Memcpy,
    /// A fill that the device made.
    Memset,
    /// A wait of the host for a device, or of a stream for an event.
    Sync,
    /// A section of host code: a framework's operation, a section of the engine's step.
    Host,
    /// A call into the driver or the runtime library.
    Api,
    /// An annotation around other events: NVTX ranges, profiler steps.
    Range,
    /// Time that the profiler itself took.
    Overhead,
    /// A point in time without a duration.
    Instant,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Kind; 9] = [
        Kind::Kernel,
        Kind::Memcpy,
        Kind::Memset,
        Kind::Sync,
        Kind::Host,
        Kind::Api,
        Kind::Range,
        Kind::Overhead,
        Kind::Instant,
    ];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Memcpy => "memcpy",
            Kind::Memset => "memset",
            Kind::Sync => "sync",
            Kind::Host => "host",
            Kind::Api => "api",
            Kind::Range => "range",
            Kind::Overhead => "overhead",
            Kind::Instant => "instant",
        }
    }

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The phase of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Prompts are read.
    Prefill,
    /// Each sequence gets a token.
    Decode,
    /// Both in one step.
    Mixed,
}

impl Phase {
    /// Every phase, in the order of its number.
    pub const ALL: [Phase; 3] = [Phase::Prefill, Phase::Decode, Phase::Mixed];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        PHASES[self as usize]
    }

    /// The phase of a name.
    pub fn of_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// The names of the phases, in the order of their numbers.
pub const PHASES: [&str; 3] = ["prefill", "decode", "mixed"];

/// Strings of few distinct values.
fn dictionary(key: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8))
}

/// Three sizes: x, y, z.
fn dimensions() -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Int32, false)), 3)
}

/// The columns of the event table, in order.
pub fn events() -> Schema {
    Schema::new(vec![
        Field::new("kind", dictionary(DataType::UInt8), false),
        Field::new("name", dictionary(DataType::UInt32), false),
        // As the source calls it: cpu_op, cuda_runtime, user_annotation.
        Field::new("category", dictionary(DataType::UInt16), true),
        Field::new("start_ns", DataType::Int64, false),
        Field::new("dur_ns", DataType::Int64, false),
        Field::new("rank", DataType::Int32, true),
        Field::new("device", DataType::Int32, true),
        Field::new("stream", DataType::Int64, true),
        Field::new("pid", DataType::Int64, true),
        Field::new("tid", DataType::Int64, true),
        // Joins an API call with what it started on the device.
        Field::new("correlation", DataType::Int64, true),
        // Joins a framework's operation with the API calls inside (Kineto: "External id").
        Field::new("external", DataType::Int64, true),
        Field::new("graph", DataType::Int64, true),
        Field::new("node", DataType::Int64, true),
        Field::new("step", DataType::Int64, true),
        Field::new("phase", dictionary(DataType::UInt8), true),
        Field::new("layer", DataType::Int32, true),
        Field::new("op", dictionary(DataType::UInt16), true),
        Field::new("bytes", DataType::Int64, true),
        Field::new("flops", DataType::Float64, true),
        Field::new("grid", dimensions(), true),
        Field::new("block", dimensions(), true),
        // A JSON object of what the source says besides.
        Field::new("args", DataType::Utf8, true),
    ])
}

/// The columns of the table of steps, in order.
pub fn steps() -> Schema {
    Schema::new(vec![
        Field::new("step", DataType::Int64, false),
        Field::new("rank", DataType::Int32, true),
        Field::new("phase", dictionary(DataType::UInt8), true),
        Field::new("start_ns", DataType::Int64, false),
        Field::new("dur_ns", DataType::Int64, false),
        Field::new("device_ns", DataType::Int64, true),
        // Sequences that decode, tokens of prompts, longest context, requests.
        Field::new("batch", DataType::Int64, true),
        Field::new("prefill_tokens", DataType::Int64, true),
        Field::new("context", DataType::Int64, true),
        Field::new("requests", DataType::Int64, true),
        // Where the boundaries come from: engine, annotation, periodicity.
        Field::new("source", dictionary(DataType::UInt8), true),
    ])
}
