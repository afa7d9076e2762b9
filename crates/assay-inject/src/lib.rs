//! The library that the CUDA driver loads into every process of a traced program.
//!
//! `CUDA_INJECTION64_PATH` names it, and the driver calls `InitializeInjection` in `cuInit`. It then
//! looks at a control file twenty times a second and does nothing else: CUPTI is neither loaded nor
//! subscribed to. Once the file says `armed`, it records into a shard of its own in the folder of the
//! control file, which `ASSAY_TRACE_FOLDER` names, until the file says `idle` or the process ends.

mod control;
#[cfg(feature = "entry")]
mod entry;
mod folder;
#[cfg(feature = "entry")]
mod shard;
#[cfg(feature = "entry")]
mod tracer;

pub use control::{Control, ControlError, State};
pub use folder::{Folder, Stamp, check_file};

/// The environment variable that names the folder of control file and shards.
pub const FOLDER_VARIABLE: &str = "ASSAY_TRACE_FOLDER";
/// The name of the control file.
pub const CONTROL_FILE: &str = "control.json";
