//! Any bytes as a GGUF file: read whole, or refused.
#![no_main]

use assay_formats::Gguf;
use assay_formats::gguf::{Scalar, Value};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::from_bytes(bytes.to_vec()) else {
        return;
    };
    // Everything that was accepted can be read.
    for (key, value) in file.metadata() {
        assert_eq!(file.value(key), Some(value));
        if let Value::Array(array) = value {
            let texts = file.texts(array).count();
            let numbers = file
                .array_bytes(array)
                .chunks_exact(array.kind.bytes())
                .filter_map(|bytes| Scalar::from_bytes(array.kind, bytes))
                .count();
            assert!(texts == array.count || numbers == array.count);
        }
    }
    for tensor in file.tensors() {
        let _ = &file.mapping().bytes()[tensor.range.clone()];
    }
});
