//! The columns of the event table, and the kinds of event.

use assay_collections::named;

/// The most rows of a batch.
pub const BATCH_ROWS: usize = 1 << 16;

named! {
    /// What an event is; the first column of the table holds the name.
    #[derive(Default)]
    #[repr(u8)]
    pub enum Kind {
        /// A kernel on a device.
        #[default]
        Kernel = "kernel",
        /// A copy that the device made.
        Memcpy = "memcpy",
        /// A fill that the device made.
        Memset = "memset",
        /// A wait of the host for a device, or of a stream for an event.
        Sync = "sync",
        /// A section of host code: a framework's operation, a section of the engine's step.
        Host = "host",
        /// A call into the driver or the runtime library.
        Api = "api",
        /// An annotation around other events: NVTX ranges, profiler steps.
        Range = "range",
        /// Time that the profiler itself took.
        Overhead = "overhead",
        /// A point in time without a duration.
        Instant = "instant",
    }
}

named! {
    /// The phase of a step.
    #[repr(u8)]
    pub enum Phase {
        /// Prompts are read.
        Prefill = "prefill",
        /// Each sequence gets a token.
        Decode = "decode",
        /// Both in one step.
        Mixed = "mixed",
    }
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Numbers of 32 bits.
    Int32,
    /// Numbers of 64 bits.
    Int64,
    /// Floating-point numbers.
    Float64,
    /// Texts of few distinct values: a dictionary and keys.
    Texts,
    /// Texts that are mostly distinct.
    LongTexts,
    /// Three sizes: x, y, z.
    Dimensions,
}

/// A column of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: DataType,
    /// Whether a row may lack a value.
    pub nullable: bool,
}

const fn needed(name: &'static str, kind: DataType) -> Field {
    Field { name, kind, nullable: false }
}

const fn optional(name: &'static str, kind: DataType) -> Field {
    Field { name, kind, nullable: true }
}

/// The columns of the event table, in order.
pub static FIELDS: [Field; 23] = [
    needed("kind", DataType::Texts),
    needed("name", DataType::Texts),
    // As the source calls it: cpu_op, cuda_runtime, user_annotation.
    optional("category", DataType::Texts),
    needed("start_ns", DataType::Int64),
    needed("dur_ns", DataType::Int64),
    optional("rank", DataType::Int32),
    optional("device", DataType::Int32),
    optional("stream", DataType::Int64),
    optional("pid", DataType::Int64),
    optional("tid", DataType::Int64),
    // Joins an API call with what it started on the device.
    optional("correlation", DataType::Int64),
    // Joins a framework's operation with the API calls inside (Kineto: "External id").
    optional("external", DataType::Int64),
    optional("graph", DataType::Int64),
    optional("node", DataType::Int64),
    optional("step", DataType::Int64),
    optional("phase", DataType::Texts),
    optional("layer", DataType::Int32),
    optional("op", DataType::Texts),
    optional("bytes", DataType::Int64),
    optional("flops", DataType::Float64),
    optional("grid", DataType::Dimensions),
    optional("block", DataType::Dimensions),
    // A JSON object of what the source says besides.
    optional("args", DataType::LongTexts),
];

/// The place of a column.
pub fn place(name: &str) -> Option<usize> {
    FIELDS.iter().position(|field| field.name == name)
}
