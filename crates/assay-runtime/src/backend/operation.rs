//! The calls of a backend, by name.

use std::fmt;

/// The calls of a backend, for naming them in errors, fault plans and records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// `allocate_device`
    AllocateDevice,
    /// `free_device`
    FreeDevice,
    /// `allocate_host`
    AllocateHost,
    /// `free_host`
    FreeHost,
    /// `read_host`
    ReadHost,
    /// `write_host`
    WriteHost,
    /// `create_stream`
    CreateStream,
    /// `destroy_stream`
    DestroyStream,
    /// `query_stream`
    QueryStream,
    /// `recover_stream`
    RecoverStream,
    /// `synchronize_stream`
    SynchronizeStream,
    /// `create_event`
    CreateEvent,
    /// `destroy_event`
    DestroyEvent,
    /// `record_event`
    RecordEvent,
    /// `wait_event`
    WaitEvent,
    /// `query_event`
    QueryEvent,
    /// `synchronize_event`
    SynchronizeEvent,
    /// `elapsed_ns`
    Elapsed,
    /// `copy`
    Copy,
    /// `fill`
    Fill,
    /// `launch`
    Launch,
    /// `begin_capture`
    BeginCapture,
    /// `end_capture`
    EndCapture,
    /// `is_capturing`
    IsCapturing,
    /// `launch_graph`
    LaunchGraph,
    /// `destroy_graph`
    DestroyGraph,
}

impl Operation {
    /// The name of the call.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AllocateDevice => "allocate_device",
            Operation::FreeDevice => "free_device",
            Operation::AllocateHost => "allocate_host",
            Operation::FreeHost => "free_host",
            Operation::ReadHost => "read_host",
            Operation::WriteHost => "write_host",
            Operation::CreateStream => "create_stream",
            Operation::DestroyStream => "destroy_stream",
            Operation::QueryStream => "query_stream",
            Operation::RecoverStream => "recover_stream",
            Operation::SynchronizeStream => "synchronize_stream",
            Operation::CreateEvent => "create_event",
            Operation::DestroyEvent => "destroy_event",
            Operation::RecordEvent => "record_event",
            Operation::WaitEvent => "wait_event",
            Operation::QueryEvent => "query_event",
            Operation::SynchronizeEvent => "synchronize_event",
            Operation::Elapsed => "elapsed_ns",
            Operation::Copy => "copy",
            Operation::Fill => "fill",
            Operation::Launch => "launch",
            Operation::BeginCapture => "begin_capture",
            Operation::EndCapture => "end_capture",
            Operation::IsCapturing => "is_capturing",
            Operation::LaunchGraph => "launch_graph",
            Operation::DestroyGraph => "destroy_graph",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
