//! The operations of [`assay_operations`] as CPU kernels, one file per family.
//!
//! A kernel checks that every operand is inside an allocation of the device, and calls
//! [`ops`](crate::ops) and [`quantization`](crate::quantization). The same code validates a call before
//! it is queued, so that its caller gets the error; an error that depends on the contents of memory,
//! like an index out of range, fails when the kernel runs.

mod activation;
mod attention;
mod call;
mod channels;
mod convolution;
mod experts;
mod gather;
mod latent;
mod linear;
mod matmul;
mod norm;
mod pairs;
mod perception;
mod quantize;
mod recurrence;
mod residual;
mod roofline;
mod rope;
mod sampling;
mod signals;
mod state_space;
mod weights;

pub use weights::{dequantize_weights, pack_weights, weights_bytes};

use crate::device::{CpuDevice, CpuKernel};
use crate::ops::Context;
use assay_operations::{Signature, TABLE};
use assay_runtime::backend::{KernelId, Result};
use call::Call;

type Body = fn(Context, &Call<'_>) -> Result<()>;

/// The operations with CPU kernels.
const BODIES: [(&str, Body); 49] = [
    ("linear", linear::linear),
    ("embedding", gather::embedding),
    ("rms_norm", norm::rms_norm),
    ("layer_norm", norm::layer_norm),
    ("swiglu", activation::swiglu),
    ("activate", activation::activate),
    ("softmax", activation::softmax),
    ("rope", rope::rope),
    ("rope_write", rope::rope_write),
    ("paged_attention", attention::paged_attention),
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
    ("fourier", signals::fourier),
    ("stft", signals::stft),
    ("overlap_add", signals::overlap_add),
    ("resample", signals::resample),
    ("recursive_filter", signals::recursive_filter),
    ("gather_rows", gather::gather_rows),
    ("sample", sampling::sample),
    ("penalize", sampling::penalize),
    ("mask_logits", sampling::mask_logits),
    ("quantize", quantize::quantize),
    ("dequantize", quantize::dequantize),
    ("matmul", matmul::matmul),
    ("scale", residual::scale),
    ("add_residual", residual::add_residual),
    ("norm_columns", residual::norm_columns),
    ("route", experts::route),
    ("grouped_linear", experts::grouped_linear),
    ("combine_experts", experts::combine_experts),
    ("pillarize", perception::pillarize),
    ("pillar_features", perception::pillar_features),
    ("rotated_nms", perception::rotated_nms),
    ("channel_projection", pairs::channel_projection),
    ("triangle_update", pairs::triangle_update),
    ("transition", pairs::transition),
    ("gated_attention", pairs::gated_attention),
    ("outer_product_mean", pairs::outer_product_mean),
    ("stream_read", roofline::stream_read),
    ("stream_copy", roofline::stream_copy),
    ("fma_peak", roofline::fma_peak),
];

/// Refuses an operation without a kernel: NumPy runs the array operations on the CPU.
fn missing(_: Context, call: &Call<'_>) -> Result<()> {
    Err(call.error("an operation", "with a CPU kernel", "one without"))
}

/// Names of the operations with CPU kernels.
pub fn names() -> impl Iterator<Item = &'static str> {
    BODIES.iter().map(|(name, _)| *name)
}

fn body(signature: &Signature) -> Body {
    let found = BODIES.iter().find(|(name, _)| *name == signature.name);
    found.map_or(missing, |(_, body)| *body)
}

/// Registers every operation; returns the kernels in the order of the table.
pub fn register(device: &CpuDevice) -> Vec<KernelId> {
    let rows = TABLE.iter();
    rows.map(|signature| device.register_kernel(kernel(signature, body(signature)))).collect()
}

fn kernel(signature: &'static Signature, body: Body) -> CpuKernel {
    CpuKernel {
        name: signature.name.to_owned(),
        parameters: signature.parameters(),
        check: Some(Box::new(move |launch| {
            body(Context::best(), &Call::new(signature, launch, false)?)
        })),
        body: Box::new(move |launch| body(Context::best(), &Call::new(signature, launch, true)?)),
    }
}
