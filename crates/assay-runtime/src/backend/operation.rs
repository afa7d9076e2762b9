//! The calls of a backend, by name.

use assay_collections::named;

named! {
    /// The calls of a backend, for naming them in errors, fault plans and records.
    pub enum Operation {
        /// `allocate_device`
        AllocateDevice = "allocate_device",
        /// `free_device`
        FreeDevice = "free_device",
        /// `allocate_host`
        AllocateHost = "allocate_host",
        /// `free_host`
        FreeHost = "free_host",
        /// `read_host`
        ReadHost = "read_host",
        /// `write_host`
        WriteHost = "write_host",
        /// `create_stream`
        CreateStream = "create_stream",
        /// `destroy_stream`
        DestroyStream = "destroy_stream",
        /// `query_stream`
        QueryStream = "query_stream",
        /// `recover_stream`
        RecoverStream = "recover_stream",
        /// `synchronize_stream`
        SynchronizeStream = "synchronize_stream",
        /// `create_event`
        CreateEvent = "create_event",
        /// `destroy_event`
        DestroyEvent = "destroy_event",
        /// `record_event`
        RecordEvent = "record_event",
        /// `wait_event`
        WaitEvent = "wait_event",
        /// `query_event`
        QueryEvent = "query_event",
        /// `synchronize_event`
        SynchronizeEvent = "synchronize_event",
        /// `elapsed_ns`
        Elapsed = "elapsed_ns",
        /// `copy`
        Copy = "copy",
        /// `fill`
        Fill = "fill",
        /// `launch`
        Launch = "launch",
        /// `begin_capture`
        BeginCapture = "begin_capture",
        /// `end_capture`
        EndCapture = "end_capture",
        /// `is_capturing`
        IsCapturing = "is_capturing",
        /// `launch_graph`
        LaunchGraph = "launch_graph",
        /// `destroy_graph`
        DestroyGraph = "destroy_graph",
    }
}
