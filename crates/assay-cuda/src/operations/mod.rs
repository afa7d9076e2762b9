//! The operations of [`assay_operations`] on a GPU, one file per family.
//!
//! A body reads its call, checks that every operand is as long as it has to be, and picks kernels
//! and grids. Kernels are compiled when they are first needed.

mod attention;
mod attention_decode;
mod axes;
mod call;
mod ceilings;
mod choosing;
mod element_names;
mod elementwise;
mod few_rows;
mod groups;
mod linear;
mod own_products;
mod packed;
mod prefill;
mod products;
mod quantize;
mod reduce;
mod rows;
mod sampling;
mod scan;
mod some_rows;
mod sort;
mod tools;

pub use attention::{BLOCK_TOKENS, HEADS};

use crate::device::{CudaDevice, Queue};
use assay_operations::{Arguments, Signature, TABLE};
use assay_runtime::backend::{BackendError, KernelId, Operation, Result};
use call::Call;
use std::sync::Arc;
use tools::Tools;

type Body = fn(&Tools, &Queue<'_>, &Call<'_>) -> Result<()>;

/// The bodies of the operations that have kernels.
const BODIES: [(&str, Body); 34] = [
    ("linear", linear::linear),
    ("matmul", products::matmul),
    ("embedding", rows::embedding),
    ("gather_rows", rows::gather_rows),
    ("rms_norm", rows::rms_norm),
    ("layer_norm", rows::layer_norm),
    ("softmax", rows::softmax),
    ("swiglu", rows::swiglu),
    ("activate", rows::activate),
    ("rope", attention::rope),
    ("rope_write", attention::rope_write),
    ("paged_attention", attention::paged_attention),
    ("decode_attention", attention_decode::decode_attention),
    ("attention", attention::attention),
    ("elementwise", elementwise::elementwise),
    ("map", elementwise::map),
    ("reduce", reduce::reduce),
    ("argreduce", reduce::extreme_place),
    ("scan", scan::scan),
    ("sort", sort::sort),
    ("gather", choosing::take),
    ("scatter", choosing::put),
    ("flag_counts", choosing::tally),
    ("compact", choosing::compact),
    ("searchsorted", choosing::search),
    ("sample", sampling::sample),
    ("penalize", sampling::penalize),
    ("quantize", quantize::quantize),
    ("dequantize", quantize::dequantize),
    ("pack", packed::pack),
    ("unpack", packed::unpack),
    ("stream_read", ceilings::read),
    ("stream_copy", ceilings::copy),
    ("fma_peak", ceilings::multiply_add),
];

fn refused(message: String) -> BackendError {
    BackendError::Driver {
        operation: Operation::Launch,
        message,
    }
}

/// What an operation without kernels does.
fn missing(_: &Tools, _: &Queue<'_>, call: &Call<'_>) -> Result<()> {
    Err(refused(format!(
        "{}: expected an operation with a CUDA kernel, got one without",
        call.name()
    )))
}

fn body(signature: &Signature) -> Body {
    let found = BODIES.iter().find(|(name, _)| *name == signature.name);
    found.map_or(missing, |(_, body)| *body)
}

/// Makes every operation launchable; gives the kernels in the order of the table.
pub fn register(device: &CudaDevice) -> Vec<KernelId> {
    let tools = Arc::new(Tools::default());
    let rows = TABLE.iter();
    rows.map(|signature| {
        let (body, tools) = (body(signature), Arc::clone(&tools));
        device.register_operation(
            signature.name,
            signature.parameters(),
            Box::new(move |queue, launch| {
                let arguments = Arguments::new(signature, &launch.arguments);
                let arguments = arguments.map_err(|error| refused(error.to_string()))?;
                body(&tools, queue, &Call::new(arguments))
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
    fn every_body_is_of_an_operation_in_the_table() {
        for (name, _) in BODIES {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
