//! The columns of the event table, and the kinds of event.

/// The most rows of a batch.
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

/// The columns of a table, in order.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The columns.
    pub fields: &'static [Field],
    /// The same as Arrow's IPC message in base 64, which readers of Parquet restore types from.
    pub(crate) arrow: &'static str,
}

impl Schema {
    /// The place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

const fn needed(name: &'static str, kind: DataType) -> Field {
    Field {
        name,
        kind,
        nullable: false,
    }
}

const fn optional(name: &'static str, kind: DataType) -> Field {
    Field {
        name,
        kind,
        nullable: true,
    }
}

static EVENTS: Schema = Schema {
    fields: &[
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
    ],
    arrow: include_str!("parquet/events.schema"),
};

static STEPS: Schema = Schema {
    fields: &[
        needed("step", DataType::Int64),
        optional("rank", DataType::Int32),
        optional("phase", DataType::Texts),
        needed("start_ns", DataType::Int64),
        needed("dur_ns", DataType::Int64),
        optional("device_ns", DataType::Int64),
        // Sequences that decode, tokens of prompts, longest context, requests.
        optional("batch", DataType::Int64),
        optional("prefill_tokens", DataType::Int64),
        optional("context", DataType::Int64),
        optional("requests", DataType::Int64),
        // Where the boundaries come from: engine, annotation, periodicity.
        optional("source", DataType::Texts),
    ],
    arrow: include_str!("parquet/steps.schema"),
};

/// The columns of the event table.
pub fn events() -> &'static Schema {
    &EVENTS
}

/// The columns of the table of steps.
pub fn steps() -> &'static Schema {
    &STEPS
}
