//! Any bytes as weights of any format and shape: packed and read back, or refused.
#![no_main]

use assay_cpu::kernels::{dequantize_weights, pack_weights, weights_bytes};
use assay_cpu::ops::Context;
use assay_operations::ElementFormat;

libfuzzer_sys::fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (format, outputs, inputs, source) = input;
    let format = ElementFormat::ALL[format as usize % ElementFormat::ALL.len()];
    let (outputs, inputs) = (outputs as usize, inputs as usize % 1024);
    let Ok(bytes) = weights_bytes(format, outputs, inputs) else {
        return;
    };
    // Scales of int8 weights are the first four bytes of the input, for every row.
    let scales = (format == ElementFormat::Int8)
        .then(|| source.iter().copied().cycle().take(4 * outputs).collect::<Vec<u8>>());
    let mut packed = vec![0; bytes];
    let context = Context::best();
    if pack_weights(context, format, source, scales.as_deref(), outputs, inputs, &mut packed)
        .is_err()
    {
        return;
    }
    let mut values = vec![0.0; outputs * inputs];
    dequantize_weights(format, &packed, outputs, inputs, &mut values).expect("what was packed");
});
