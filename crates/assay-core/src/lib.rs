//! The parts of Assay that know neither Python nor CUDA.

pub mod build_info;
pub mod tape;
