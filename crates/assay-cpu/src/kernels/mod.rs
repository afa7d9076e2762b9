//! The operations of [`assay_operations`] as kernels of the processor, one file per family.
//!
//! A kernel reads its call, checks that every range lies in memory of the device, and runs what
//! [`ops`](crate::ops) and [`quant`](crate::quantization) have. The same code looks at a call before it is
//! queued, without running it, so that its caller hears of a mistake; what only memory can tell,
//! like an index out of range, fails when it runs.

mod activation;
mod attention;
mod call;
mod linear;
mod matmul;
mod norm;
mod quantize;
mod roofline;
mod rope;
mod rows;
mod sampling;
mod weights;

pub use weights::{dequantize_weights, pack_weights, weights_bytes};

use crate::device::{CpuDevice, CpuKernel};
use crate::ops::Context;
use assay_operations::{Signature, TABLE};
use assay_runtime::backend::{KernelId, Result};
use call::Call;

type Body = fn(Context, &Call<'_>) -> Result<()>;

/// The bodies of the operations that have kernels here.
const BODIES: [(&str, Body); 20] = [
    ("linear", linear::linear),
    ("embedding", rows::embedding),
    ("rms_norm", norm::rms_norm),
    ("layer_norm", norm::layer_norm),
    ("swiglu", activation::swiglu),
    ("activate", activation::activate),
    ("softmax", activation::softmax),
    ("rope", rope::rope),
    ("rope_write", rope::rope_write),
    ("paged_attention", attention::paged_attention),
    ("attention", attention::attention),
    ("gather_rows", rows::gather_rows),
    ("sample", sampling::sample),
    ("penalize", sampling::penalize),
    ("quantize", quantize::quantize),
    ("dequantize", quantize::dequantize),
    ("matmul", matmul::matmul),
    ("stream_read", roofline::stream_read),
    ("stream_copy", roofline::stream_copy),
    ("fma_peak", roofline::fma_peak),
];

/// What an operation without a kernel does: those of arrays are NumPy's loops here.
fn missing(_: Context, call: &Call<'_>) -> Result<()> {
    Err(call.error(
        "an operation",
        "with a kernel of the processor",
        "one without",
    ))
}

fn body(signature: &Signature) -> Body {
    let found = BODIES.iter().find(|(name, _)| *name == signature.name);
    found.map_or(missing, |(_, body)| *body)
}

/// Makes every operation launchable; gives the kernels in the order of the table.
pub fn register(device: &CpuDevice) -> Vec<KernelId> {
    let rows = TABLE.iter();
    rows.map(|signature| device.register_kernel(kernel(signature, body(signature))))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use assay_operations::find;

    #[test]
    fn every_body_is_of_an_operation_in_the_table() {
        for (name, _) in BODIES {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
