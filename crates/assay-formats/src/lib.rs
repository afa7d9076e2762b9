//! Readers for model weight files: GGUF, safetensors and ONNX.
//!
//! A file is memory-mapped and its whole header is validated first. A tensor is a range of the
//! mapping: nothing is copied, and sizes claimed by the file are never allocated. Errors name the
//! field, the expected and the actual value.

mod error;
pub mod gguf;
mod mapping;
pub mod onnx;
pub mod safetensors;
mod tensor;

pub use assay_operations::ElementFormat;
pub use error::{Fault, FormatError, Result};
pub use gguf::Gguf;
pub use mapping::Mapping;
pub use onnx::Onnx;
pub use safetensors::SafeTensors;
pub use tensor::Tensor;
