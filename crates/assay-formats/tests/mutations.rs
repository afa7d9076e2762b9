//! Sound files changed at random: read or refused, never a panic, never memory beyond the file's.

mod common;

use assay_formats::onnx::Graph;
use assay_formats::{
    Ctranslate2, FormatError, GgmlWhisper, Gguf, Onnx, SafeTensors, Sound, Tensor,
};
use common::speech::{flac, sound_ctranslate2, sound_ggml_whisper, wav};
use common::{sound_gguf, sound_onnx, sound_safetensors};
use proptest::prelude::*;

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    /// Another byte.
    Byte(usize, u8),
    /// Another number of eight bytes: where counts, lengths and offsets are.
    Number(usize, u64),
    /// The file ends here.
    Cut(usize),
    /// Bytes that were not there.
    Insert(usize, Vec<u8>),
    /// A part of the file once more.
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let number = prop_oneof![
        any::<u64>(),
        (0_u32..64).prop_map(|bit| 1_u64 << bit),
        (0_u64..300),
        (0_u64..300).prop_map(|back| u64::MAX - back),
    ];
    prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        4 => (any::<usize>(), number).prop_map(|(at, number)| Change::Number(at, number)),
        1 => any::<usize>().prop_map(Change::Cut),
        1 => (any::<usize>(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (any::<usize>(), 1_usize..64).prop_map(|(at, count)| Change::Repeat(at, count)),
    ]
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len().max(1);
        match change {
            Change::Byte(at, byte) => {
                if let Some(place) = bytes.get_mut(at % length) {
                    *place = *byte;
                }
            }
            Change::Number(at, number) => {
                let at = at % length;
                if let Some(place) = bytes.get_mut(at..at + 8) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
            }
            Change::Cut(at) => bytes.truncate(at % length),
            Change::Insert(at, new) => {
                let at = (at % length).min(bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Repeat(at, count) => {
                let at = (at % length).min(bytes.len());
                let end = (at + count).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// What holds for every file: refused by field, or every tensor inside and alone.
fn check(
    bytes: Vec<u8>,
    read: impl Fn(Vec<u8>) -> Result<Vec<Tensor>, FormatError>,
) -> Result<(), TestCaseError> {
    let total = bytes.len();
    let mut outcome = None;
    // The headers here are a few hundred bytes, of which names and texts are copied.
    let used = allocation_counter::measure(|| outcome = Some(read(bytes)));
    let limit = 64 * 1024 + 64 * total as u64;
    prop_assert!(used.bytes_max < limit, "{} bytes", used.bytes_max);
    match outcome {
        Some(Ok(tensors)) => {
            let mut reached = 0;
            let mut ranges: Vec<_> = tensors.iter().map(|one| one.range.clone()).collect();
            ranges.sort_by_key(|range| (range.start, range.end));
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                prop_assert!(reached <= range.start && range.end <= total);
                reached = range.end;
            }
        }
        Some(Err(error)) => {
            prop_assert!(!error.field.is_empty());
            prop_assert!(!error.to_string().contains('\n'));
        }
        None => prop_assert!(false, "nothing was read"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_gguf_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        check(apply(sound_gguf(), &changes), |bytes| {
            Gguf::from_bytes(bytes).map(|file| file.tensors().to_vec())
        })?;
    }

    #[test]
    fn changed_safetensors_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        check(apply(sound_safetensors(), &changes), |bytes| {
            SafeTensors::from_bytes(bytes).map(|file| file.tensors().to_vec())
        })?;
    }

    #[test]
    fn changed_onnx_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        // Tensors whose numbers were decoded are not ranges of the file.
        let of_the_file = |graph: &Graph| {
            for stored in &graph.initializers {
                assert!(stored.tensor.range.end <= stored.mapping.bytes().len());
            }
            Vec::new()
        };
        check(apply(sound_onnx(), &changes), |bytes| {
            Onnx::from_bytes(bytes).map(|file| of_the_file(file.graph()))
        })?;
    }

    #[test]
    fn any_bytes_behind_the_magic_are_read_or_refused(
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [&b"GGUF\x03\0\0\0"[..], &tail].concat();
        check(bytes, |bytes| Gguf::from_bytes(bytes).map(|file| file.tensors().to_vec()))?;
    }

    #[test]
    fn changed_ctranslate2_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        check(apply(sound_ctranslate2(), &changes), |bytes| {
            Ctranslate2::from_bytes(bytes).map(|file| file.tensors().to_vec())
        })?;
    }

    #[test]
    fn changed_ggml_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        check(apply(sound_ggml_whisper(), &changes), |bytes| {
            GgmlWhisper::from_bytes(bytes).map(|file| {
                let mut tensors = file.tensors().to_vec();
                tensors.push(file.mel_filters().clone());
                tensors
            })
        })?;
    }

    #[test]
    fn changed_wav_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..6),
    ) {
        read_sound(apply(wav(3, 32, 2, 16_000, &[0; 64]), &changes));
    }

    #[test]
    fn changed_flac_files_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..4),
    ) {
        read_sound(apply(flac(), &changes));
    }
}

fn read_sound(bytes: Vec<u8>) {
    if let Ok(sound) = Sound::from_bytes(bytes) {
        let frames = sound.frames();
        if let Ok(samples) = sound.mono(0, usize::MAX) {
            assert_eq!(samples.len(), frames);
        }
    }
}
