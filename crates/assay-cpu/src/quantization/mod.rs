//! Quantized weights and activations: block formats of GGUF, repacked for SIMD kernels.
//!
//! The block layouts are those of ggml's `ggml-common.h`.

mod amx_panels;
mod block;
mod format;
mod legacy_quants;
mod mxfp4;
mod packed_view;
mod packed_weights;
mod packing;
mod panels;
mod q4_k;
mod q6_k;
mod quantized_activations;

pub use format::{BlockFormat, dequantize, quantize};
pub use packed_view::PackedView;
pub use packed_weights::PackedWeights;
pub use packing::{int8_blocks, pack_into, packed_bytes};
pub use quantized_activations::QuantizedActivations;
