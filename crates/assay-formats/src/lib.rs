//! Readers for model weight files (GGUF, safetensors, ONNX, CTranslate2, and the ggml files of Whisper)
//! and for recordings (WAV and FLAC).
//!
//! A file of weights is memory-mapped and its whole header is validated first. A tensor is a range of the
//! mapping: nothing is copied, and sizes claimed by the file are never allocated. Errors name the
//! field, the expected and the actual value.

mod ctranslate2;
mod cursor;
mod error;
mod ggml_whisper;
pub mod gguf;
mod mapping;
pub mod onnx;
pub mod safetensors;
pub mod sound;
mod tensor;

pub use assay_operations::ElementFormat;
pub use ctranslate2::Ctranslate2;
pub use error::{Fault, FormatError, Result};
pub use ggml_whisper::{GgmlWhisper, Hyperparameters};
pub use gguf::Gguf;
pub use mapping::Mapping;
pub use onnx::Onnx;
pub use safetensors::SafeTensors;
pub use sound::Sound;
pub use tensor::Tensor;
