//! Any bytes as a safetensors file: read whole, or refused.
#![no_main]

use assay_formats::SafeTensors;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = SafeTensors::from_bytes(bytes.to_vec()) else {
        return;
    };
    // Every byte behind the header belongs to exactly one tensor.
    let held: usize = file.tensors().iter().map(|tensor| tensor.range.len()).sum();
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("a header was read"));
    assert_eq!(held + 8 + header as usize, bytes.len());
});
