//! Event traces as Arrow columns, without Python and CUDA.
//!
//! A trace is a table of events ([`schema`]): what ran on which device, stream or thread, and when.

pub mod schema;
