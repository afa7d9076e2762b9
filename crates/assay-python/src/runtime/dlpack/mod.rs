//! Zero-copy DLPack 1.x export and import, of host memory and of GPU memory.
//!
//! On a GPU the host never waits: the consumer's stream waits for our work. Memory that a special
//! default stream used is reused only after the work queued there.

mod export;
mod import;
mod structures;
mod tensor;

pub(super) use export::dlpack_export;
pub(super) use import::dlpack_import;
pub(super) use tensor::Tensor;
