//! The parts of Assay that know neither Python nor CUDA.

pub mod backend;
pub mod build_info;
pub mod clock;
pub mod dispatch;
pub mod kv;
pub mod memory;
pub mod operations;
pub mod scheduler;
pub mod sim;
pub mod tape;
pub mod transfer;
