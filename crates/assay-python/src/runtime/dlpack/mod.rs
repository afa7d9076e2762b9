//! DLPack 1.x, both ways and without copies, of the host's memory and of a GPU's.
//!
//! On a GPU nothing waits: the consumer's stream is made to wait for our work. Memory that comes
//! back from streams everybody shares is used again after what they had to do.

mod export;
mod import;
mod structures;
mod tensor;

pub(super) use export::dlpack_export;
pub(super) use import::dlpack_import;
pub(super) use tensor::Tensor;
