//! Any bytes as a Whisper model of CTranslate2 or ggml, and as a recording: read whole, or refused.
#![no_main]

use assay_formats::{Ctranslate2, GgmlWhisper, Sound};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = Ctranslate2::from_bytes(bytes.to_vec()) {
        for tensor in file.tensors() {
            let _ = &file.mapping().bytes()[tensor.range.clone()];
        }
    }
    if let Ok(file) = GgmlWhisper::from_bytes(bytes.to_vec()) {
        assert!(file.tokens().all(|token| token.len() <= bytes.len()));
        for tensor in file.tensors() {
            let _ = &file.mapping().bytes()[tensor.range.clone()];
        }
    }
    if let Ok(sound) = Sound::from_bytes(bytes.to_vec()) {
        if let Ok(samples) = sound.mono(0, usize::MAX) {
            assert_eq!(samples.len(), sound.frames());
            assert!(samples.iter().all(|sample| sample.is_finite()));
        }
    }
});
