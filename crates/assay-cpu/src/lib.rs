//! The CPU as a device: memory, streams and events behind the same trait as a GPU, and SIMD kernels
//! for language models, with run-time dispatch.

mod aligned_buffer;
mod context;
pub mod device;
pub mod error;
pub mod half_precision;
pub mod kernels;
pub mod ops;
pub mod quantization;
pub mod roofline;
pub mod simd;
pub mod threads;
