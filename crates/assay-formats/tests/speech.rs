//! CTranslate2 and ggml models, WAV and FLAC recordings: what is read, and what is refused.

mod common;

use assay_formats::{Ctranslate2, Fault, GgmlWhisper, Sound};
use common::speech::{
    ctranslate2, flac, ggml_tensor, sound_ctranslate2, sound_ggml_whisper, variable, wav,
};

#[test]
fn a_ctranslate2_model_has_its_variables_and_aliases() {
    let model = Ctranslate2::from_bytes(sound_ctranslate2()).expect("a sound file");
    assert_eq!((model.spec(), model.revision()), ("WhisperSpec", 3));
    let [conv, heads, embeddings] = model.tensors() else { panic!("three variables") };
    assert_eq!((conv.name.as_str(), &conv.shape[..]), ("encoder/conv1/weight", &[2, 3][..]));
    assert_eq!(model.mapping().bytes()[heads.range.clone()], [6, 0]);
    assert_eq!(embeddings.range.len(), 16);
    assert_eq!(model.aliases()[0].1, "decoder/embeddings/weight");
}

#[test]
fn damaged_ctranslate2_models_are_refused_by_field() {
    let sound = || variable("a", &[2], 0, &[0; 8]);
    let trailing = [ctranslate2(6, &[sound()], &[]), vec![0]].concat();
    for (bytes, fault) in [
        (Vec::new(), Fault::Truncated),
        (ctranslate2(3, &[], &[]), Fault::Version),
        (ctranslate2(6, &[sound(), sound()], &[]), Fault::Duplicate),
        (ctranslate2(6, &[variable("a", &[3], 0, &[0; 8])], &[]), Fault::Range),
        (ctranslate2(6, &[variable("a", &[2], 9, &[0; 8])], &[]), Fault::Type),
        (ctranslate2(6, &[variable("a", &[u32::MAX; 8], 0, &[])], &[]), Fault::Shape),
        (ctranslate2(6, &[sound()], &[("b", "c")]), Fault::Range),
        (ctranslate2(6, &[sound()], &[("a", "a")]), Fault::Duplicate),
        (trailing, Fault::Hole),
    ] {
        assert_eq!(Ctranslate2::from_bytes(bytes).err().map(|error| error.fault), Some(fault));
    }
}

#[test]
fn a_ggml_model_has_its_numbers_tokens_and_tensors() {
    let model = GgmlWhisper::from_bytes(sound_ggml_whisper()).expect("a sound file");
    let head = model.hyperparameters();
    assert_eq!((head.vocabulary, head.text_context, head.mels), (51_865, 448, 80));
    assert_eq!(model.mel_filters().shape, [2, 3]);
    assert_eq!(model.tokens().collect::<Vec<_>>(), [&b"a"[..], b"\xff\xfe"]);
    let [bias, embedding] = model.tensors() else { panic!("two tensors") };
    assert_eq!((bias.name.as_str(), &bias.shape[..]), ("encoder.conv1.bias", &[4, 1][..]));
    assert_eq!(embedding.shape, [2, 3]);
}

#[test]
fn damaged_ggml_models_are_refused_by_field() {
    let with = |tensor: Vec<u8>| [sound_ggml_whisper(), tensor].concat();
    let mut magic = sound_ggml_whisper();
    magic[0] = 0;
    for (bytes, fault) in [
        (magic, Fault::Magic),
        (with(ggml_tensor("x", &[2], 0, &[0; 4])), Fault::Truncated),
        (with(ggml_tensor("x", &[2], 999, &[0; 8])), Fault::Type),
        (with(ggml_tensor("x", &[0], 0, &[])), Fault::Shape),
        (with(ggml_tensor("encoder.conv1.bias", &[1], 0, &[0; 4])), Fault::Duplicate),
        (with(ggml_tensor("", &[1], 0, &[0; 4])), Fault::Text),
        (with(ggml_tensor("x", &[1; 5], 0, &[0; 4])), Fault::Count),
    ] {
        assert_eq!(GgmlWhisper::from_bytes(bytes).err().map(|error| error.fault), Some(fault));
    }
}

fn samples(bytes: Vec<u8>) -> Vec<f32> {
    let sound = Sound::from_bytes(bytes).expect("a sound file");
    sound.mono(0, usize::MAX).expect("finite samples")
}

#[test]
fn every_coding_of_wav_becomes_numbers_from_minus_one_to_one() {
    assert_eq!(samples(wav(1, 8, 1, 8_000, &[0, 128, 192])), [-1.0, 0.0, 0.5]);
    assert_eq!(samples(wav(1, 16, 1, 192_000, &[0, 0x80, 0, 0x40])), [-1.0, 0.5]);
    assert_eq!(samples(wav(1, 24, 1, 16_000, &[0, 0, 0x80, 0, 0, 0x40])), [-1.0, 0.5]);
    assert_eq!(samples(wav(1, 32, 1, 16_000, &[0, 0, 0, 0x80])), [-1.0]);
    assert_eq!(samples(wav(3, 32, 1, 16_000, &0.25_f32.to_le_bytes())), [0.25]);
    assert_eq!(samples(wav(3, 64, 1, 16_000, &0.25_f64.to_le_bytes())), [0.25]);
    // The ends and the middle of the tables of ITU-T G.711.
    let a_law = samples(wav(6, 8, 1, 8_000, &[0x55, 0xd5, 0x2a, 0xaa]));
    assert_eq!(a_law, [-8.0, 8.0, -32256.0, 32256.0].map(|value: f32| value / 32768.0));
    let mu_law = samples(wav(7, 8, 1, 8_000, &[0x00, 0x80, 0x7f, 0xff]));
    assert_eq!(mu_law, [-32124.0, 32124.0, 0.0, 0.0].map(|value: f32| value / 32768.0));
}

#[test]
fn channels_are_averaged_and_ranges_are_cut_at_the_end() {
    let eight: Vec<u8> = (0..8).flat_map(|channel: i16| (channel * 4096).to_le_bytes()).collect();
    let sound = Sound::from_bytes(wav(1, 16, 8, 48_000, &eight)).expect("a sound file");
    assert_eq!((sound.channels(), sound.rate(), sound.frames()), (8, 48_000, 1));
    assert_eq!(sound.mono(0, 10).expect("a frame"), [0.4375]);
    assert!(sound.mono(5, 10).expect("nothing").is_empty());
}

#[test]
fn a_stream_of_unknown_size_ends_with_the_file() {
    let mut bytes = wav(1, 16, 1, 16_000, &[0, 0x40, 0, 0x20]);
    bytes[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(samples(bytes), [0.5, 0.25]);
}

#[test]
fn damaged_recordings_are_refused_by_field() {
    let mut short = wav(1, 16, 1, 16_000, &[0; 8]);
    short.truncate(46);
    let mut flipped = flac();
    flipped[50] ^= 1;
    let mut cut = flac();
    cut.truncate(50);
    for (bytes, fault) in [
        (Vec::new(), Fault::Magic),
        (b"ID3 and nothing".to_vec(), Fault::Magic),
        (short, Fault::Truncated),
        (wav(2, 4, 1, 16_000, &[]), Fault::Type),
        (wav(1, 16, 0, 16_000, &[]), Fault::Shape),
        (wav(1, 16, 1, 0, &[0; 2]), Fault::Count),
        (flipped, Fault::Checksum),
        (cut, Fault::Truncated),
    ] {
        assert_eq!(Sound::from_bytes(bytes).err().map(|error| error.fault), Some(fault));
    }
    let endless = Sound::from_bytes(wav(3, 32, 1, 16_000, &f32::NAN.to_le_bytes()));
    let refused = endless.expect("a header").mono(0, 1).err();
    assert_eq!(refused.map(|error| error.fault), Some(Fault::Range));
}

#[test]
fn the_first_example_of_the_flac_standard_is_decoded() {
    let sound = Sound::from_bytes(flac()).expect("a sound file");
    assert_eq!((sound.rate(), sound.channels(), sound.encoding()), (44_100, 2, "FLAC 16"));
    assert_eq!(sound.mono(0, 9).expect("a frame"), [(25588.0 + 10416.0) / 65536.0]);
}
