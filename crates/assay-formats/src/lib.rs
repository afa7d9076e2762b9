//! Files of model weights: GGUF and safetensors.
//!
//! A file is mapped, its header is checked whole before anything is handed out, and a tensor is a
//! range of the mapping: nothing is copied and nothing of the file's claimed sizes is allocated.
//! What is wrong with a file is said as the field, what was expected there, and what was got.

mod error;
pub mod gguf;
mod mapping;
pub mod safetensors;
mod tensor;

pub use assay_operations::ElementFormat;
pub use error::{Fault, FormatError, Result};
pub use gguf::Gguf;
pub use mapping::Mapping;
pub use safetensors::SafeTensors;
pub use tensor::Tensor;
