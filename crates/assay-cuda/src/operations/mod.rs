//! The operations of [`assay_operations`] on a GPU, one file per family.
//!
//! A body reads its call, checks the size of every operand, and picks kernels and launch shapes.
//! Kernels are compiled at their first use.

mod attention;
mod attention_decode;
mod attention_limits;
mod attention_prefill;
mod attention_scores;
mod axes;
mod batch_invariant_gemm;
mod call;
mod channels;
pub(crate) mod codes;
mod combine_linear;
mod context;
mod convolution;
mod cublaslt_gemm;
mod define;
mod elementwise;
mod error;
mod experts;
mod fallback_gemm;
mod fourier;
mod fourier_plan;
mod gemv;
mod grid;
mod grouped_arguments;
mod grouped_gemm_hopper;
mod grouped_linear;
mod grouped_small_m_gemm;
mod grouped_small_m_gemm_hopper;
mod indexing;
mod latent;
mod layers;
mod linear;
mod linear_arguments;
mod lora;
mod microbench;
mod packed_layout;
mod packed_weights;
mod pairs;
mod point_clouds;
mod quantize;
mod recurrence;
mod reduce;
mod residual;
mod rope;
mod router;
mod sampling;
mod scan;
mod signals;
mod small_m_gemm;
mod sort;
mod state_space;
mod type_names;

pub use attention_limits::{BLOCK_TOKENS_MULTIPLE, HEAD_DIMS};
pub use packed_layout::{layout_macros, packed_row_bytes};

use crate::device::CudaDevice;
use assay_operations::{Arguments, Signature, TABLE};
use assay_runtime::backend::{KernelId, Result};
use call::Call;
use context::OperationContext;
use error::launch_error;
use std::sync::Arc;

type Body = fn(&Call<'_>) -> Result<()>;

/// The bodies of the operations that have kernels.
const BODIES: [(&str, Body); 65] = [
    ("linear", linear::linear),
    ("matmul", cublaslt_gemm::matmul),
    ("embedding", layers::embedding),
    ("gather_rows", layers::gather_rows),
    ("rms_norm", layers::rms_norm),
    ("layer_norm", layers::layer_norm),
    ("softmax", layers::softmax),
    ("swiglu", layers::swiglu),
    ("activate", layers::activate),
    ("rope", rope::rope),
    ("rope_write", rope::rope_write),
    ("paged_attention", attention::paged_attention),
    ("decode_attention", attention_decode::decode_attention),
    ("attention", attention::attention),
    ("latent_write", latent::latent_write),
    ("latent_attention", latent::latent_attention),
    ("causal_convolution", state_space::causal_convolution),
    ("selective_scan", state_space::selective_scan),
    ("convolution", convolution::convolution),
    ("transposed_convolution", convolution::transposed_convolution),
    ("lstm", recurrence::lstm),
    ("group_norm", channels::group_norm),
    ("activate_channels", channels::activate_channels),
    ("fourier", fourier::fourier),
    ("stft", signals::stft),
    ("overlap_add", signals::overlap_add),
    ("resample", signals::resample),
    ("recursive_filter", signals::recursive_filter),
    ("scale", residual::scale),
    ("add_residual", residual::add_residual),
    ("norm_columns", residual::norm_columns),
    ("route", experts::route),
    ("router", router::router),
    ("grouped_linear", grouped_linear::grouped_linear),
    ("combine_linear", combine_linear::combine_linear),
    ("combine_experts", experts::combine_experts),
    ("channel_projection", pairs::channel_projection),
    ("triangle_update", pairs::triangle_update),
    ("pillarize", point_clouds::pillarize),
    ("pillar_features", point_clouds::pillar_features),
    ("rotated_nms", point_clouds::rotated_nms),
    ("lora_shrink", lora::lora_shrink),
    ("lora_expand", lora::lora_expand),
    ("lora_linear", lora::lora_linear),
    ("elementwise", elementwise::elementwise),
    ("map", elementwise::map),
    ("reduce", reduce::reduce),
    ("argreduce", reduce::argreduce),
    ("scan", scan::scan),
    ("sort", sort::sort),
    ("gather", indexing::gather),
    ("scatter", indexing::scatter),
    ("flag_counts", indexing::flag_counts),
    ("compact", indexing::compact),
    ("searchsorted", indexing::searchsorted),
    ("sample", sampling::sample),
    ("penalize", sampling::penalize),
    ("mask_logits", sampling::mask_logits),
    ("quantize", quantize::quantize),
    ("dequantize", quantize::dequantize),
    ("pack", packed_weights::pack),
    ("unpack", packed_weights::unpack),
    ("stream_read", microbench::stream_read),
    ("stream_copy", microbench::stream_copy),
    ("fma_peak", microbench::fma_peak),
];

/// The body of an operation that has no CUDA kernel.
fn unsupported(call: &Call<'_>) -> Result<()> {
    Err(launch_error(format!(
        "{}: expected an operation with a CUDA kernel, got one without",
        call.name()
    )))
}

fn body(signature: &Signature) -> Body {
    let found = BODIES.iter().find(|(name, _)| *name == signature.name);
    found.map_or(unsupported, |(_, body)| *body)
}

/// Registers every operation of the table with the device; returns their ids in the table's order.
pub fn register(device: &CudaDevice) -> Vec<KernelId> {
    let context = Arc::new(OperationContext::default());
    let rows = TABLE.iter();
    rows.map(|signature| {
        let (body, context) = (body(signature), Arc::clone(&context));
        device.register_operation(
            signature.name,
            signature.parameters(),
            Box::new(move |queue, launch| {
                let arguments = Arguments::new(signature, &launch.arguments);
                let arguments = arguments.map_err(|error| launch_error(error.to_string()))?;
                body(&Call::new(&context, queue, arguments))
            }),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_operations::find;

    #[test]
    fn every_body_implements_an_operation_of_the_table() {
        for (name, _) in BODIES {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
