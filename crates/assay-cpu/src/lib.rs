//! The processor as a device: memory, streams and events behind the same trait as a GPU, and the
//! kernels that decoding a language model needs, in vector instructions chosen at run time.

pub mod device;
