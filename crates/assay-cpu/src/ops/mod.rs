//! The operations. Each checks its arguments, partitions its work among threads, and runs a SIMD
//! kernel compiled for the level chosen at run time.

mod activation;
mod attention;
mod cache_element;
mod channels;
mod convolution;
mod dispatch;
mod element;
mod embedding;
mod experts;
mod filters;
mod fourier;
mod gemm;
mod norm;
mod pairs;
mod penalties;
mod pillars;
mod recurrence;
mod residual;
mod rope;
mod rotated_boxes;
mod sampling;
mod softmax;
mod split;
mod state_space;
mod token_masks;
mod transposing;

pub use crate::context::Context;
pub use activation::{activate, gate};
pub use assay_operations::Activation;
pub use attention::{
    AttentionShape, CacheShape, LatentShape, PagedBatch, ScoreOptions, latent_attention,
    paged_attention, prefill_attention,
};
pub use cache_element::{E4m3, Int8};
pub use channels::{ChannelActivation, ChannelShape, GroupNorm, activate_channels, group_norm};
pub use convolution::{
    ConvolutionShape, Precision, TransposedShape, convolution, transposed_convolution,
};
pub use dispatch::{CacheElement, Element};
pub(crate) use element::convert_from_f32;
pub use element::{Bf16, F16};
pub use embedding::{embedding, packed_embedding};
pub use experts::{GroupScore, NO_EXPERT, Routing, Scoring, combine_experts, route};
pub use filters::{Resampling, recursive_filter, resample};
pub use fourier::{FourierKind, FrameShape, FrameValue, fourier, overlap_add, stft};
pub use gemm::{Epilogue, LinearShape, Matrix, framed_linear, linear, matmul};
pub(crate) use gemm::{
    MIN_AMX_ROWS, PanelSource, TileEpilogue, amx_matmul_applies, tile_gemm, with_bf16_rows,
};
pub use norm::{LayerNorm, add_layer_norm, add_rms_norm, layer_norm, rms_norm};
pub use pairs::{
    AttentionAxis, ChannelProjection, OuterShape, PlaneShape, Transition, TriangleShape,
    TriangleUpdate, channel_projection, gated_attention, outer_product_mean, plane_products,
    plane_products_apply, transition, triangle_update,
};
pub use penalties::{Penalties, penalize};
pub use pillars::{PILLAR_INPUTS, POINT_FEATURES, PillarGrid, Pillars, pillar_features, pillarize};
pub use recurrence::{LstmShape, LstmWeights, lstm};
pub use residual::{add_residual, norm_columns, scale};
pub use rope::{
    HeadTransform, LatentNorm, RopeLayout, RopeScaling, RopeTable, Rotary, latent_write, rope,
    rope_write,
};
pub use rotated_boxes::{BOX_FEATURES, rotated_nms};
pub use sampling::{Sampling, argmax, log_probability, sample, uniform};
pub use softmax::softmax;
pub(crate) use split::{split_products, split_products_apply};
pub use state_space::{
    Convolution, ScanShape, StateBatch, StepSize, causal_convolution, selective_scan,
};
pub use token_masks::mask_logits;
