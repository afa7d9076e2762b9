//! The processor as a device: memory, streams and events behind the same trait as a GPU, and the
//! kernels that decoding a language model needs, in vector instructions chosen at run time.

mod aligned;
pub mod ceiling;
pub mod device;
pub mod error;
pub mod kernels;
pub mod number;
pub mod ops;
pub mod quant;
pub mod simd;
pub mod threads;
