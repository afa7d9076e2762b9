//! GGUF: sound files are read as they were written, unsound ones are refused by field.

mod common;

use assay_formats::gguf::{Array, Kind, Scalar, Value};
use assay_formats::{ElementFormat, Gguf};
use common::{entry, gguf, gguf_counted, sound_gguf, tensor, text};

#[test]
fn every_metadata_type_is_read() {
    let file = Gguf::from_bytes(sound_gguf()).unwrap();
    let scalar = |key: &str| match file.value(key) {
        Some(Value::Scalar(scalar)) => scalar.clone(),
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(scalar("general.architecture"), Scalar::Text("llama".to_owned()));
    assert_eq!(scalar("u8"), Scalar::U8(200));
    assert_eq!(scalar("i8"), Scalar::I8(-56));
    assert_eq!(scalar("u16"), Scalar::U16(65_535));
    assert_eq!(scalar("i16"), Scalar::I16(-2));
    assert_eq!(scalar("u32"), Scalar::U32(4_000_000_000));
    assert_eq!(scalar("i32"), Scalar::I32(-3));
    assert_eq!(scalar("f32"), Scalar::F32(0.25));
    assert_eq!(scalar("bool"), Scalar::Bool(true));
    assert_eq!(scalar("u64"), Scalar::U64(u64::MAX));
    assert_eq!(scalar("i64"), Scalar::I64(i64::MIN));
    assert_eq!(scalar("f64"), Scalar::F64(0.1));
    assert!(file.value("absent").is_none());
}

fn array<'a>(file: &'a Gguf, key: &str) -> &'a Array {
    match file.value(key) {
        Some(Value::Array(array)) => array,
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn arrays_are_read_lazily() {
    let file = Gguf::from_bytes(sound_gguf()).unwrap();
    let strings = array(&file, "strings");
    assert_eq!((strings.kind, strings.count), (Kind::Text, 3));
    assert_eq!(file.texts(strings).collect::<Vec<_>>(), ["a", "", "b c"]);
    let numbers = array(&file, "numbers");
    assert_eq!(file.array_bytes(numbers)[..4], 1.5_f32.to_le_bytes());
    assert_eq!(file.texts(numbers).count(), 0);
    assert_eq!(file.array_bytes(array(&file, "truths")), [0, 1]);
}

#[test]
fn tensors_are_ranges_of_the_file() {
    let bytes = sound_gguf();
    let file = Gguf::from_bytes(bytes.clone()).unwrap();
    let data = bytes.len() - 134;
    let found: Vec<_> = file
        .tensors()
        .iter()
        .map(|tensor| {
            (tensor.name.as_str(), tensor.format, tensor.shape.clone(), tensor.range.clone())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a", ElementFormat::F32, vec![2, 4], data..data + 32),
            ("b", ElementFormat::Q8_0, vec![2, 32], data + 32..data + 100),
            ("c", ElementFormat::Bf16, vec![3], data + 128..data + 134),
        ]
    );
    assert_eq!(&file.mapping().bytes()[found[0].3.clone()], (0..32).collect::<Vec<u8>>());
}

#[test]
fn both_versions_and_every_alignment_are_read() {
    for version in [2, 3] {
        let bytes = gguf_counted(version, 0, 0, &[], &[], 32, &[]);
        assert_eq!(Gguf::from_bytes(bytes).unwrap().version(), version);
    }
    let entries = [entry("general.alignment", 4, &64_u32.to_le_bytes())];
    let bytes = gguf(&entries, &[tensor("a", &[1], 0, 64)], 64, &[0; 68]);
    let file = Gguf::from_bytes(bytes).unwrap();
    assert_eq!(file.alignment(), 64);
    assert_eq!(file.tensors()[0].range.start % 64, 0);
}

fn with_entry(entry: Vec<u8>) -> Vec<u8> {
    gguf(&[entry], &[], 32, &[])
}

fn with_tensors(tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
    gguf(&[], tensors, 32, &vec![0; data])
}

fn array_of(kind: u32, count: u64, rest: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), rest].concat()
}

#[test]
fn invalid_fields_are_named() {
    let huge = u64::MAX;
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("empty", vec![], "truncated", "magic"),
        ("other file", b"PK\x03\x04 and more bytes".to_vec(), "magic", "magic"),
        ("only magic", b"GGUF".to_vec(), "truncated", "version"),
        ("old version", gguf_counted(1, 0, 0, &[], &[], 1, &[]), "version", "version"),
        (
            "big endian",
            gguf_counted(3_u32.swap_bytes(), 0, 0, &[], &[], 1, &[]),
            "version",
            "big-endian",
        ),
        ("tensor count", gguf_counted(3, huge, 0, &[], &[], 1, &[]), "count", "tensor_count"),
        ("entry count", gguf_counted(3, 0, huge, &[], &[], 1, &[]), "count", "metadata_kv_count"),
        (
            "count that metadata used up",
            gguf_counted(3, 1, 1, &[entry("k", 8, &text(&"x".repeat(40)))], &[], 1, &[]),
            "count",
            "tensor_count",
        ),
        (
            "key length",
            gguf_counted(3, 0, 1, &[], &[], 1, &[&huge.to_le_bytes()[..], &[0; 8]].concat()),
            "truncated",
            "metadata key 0",
        ),
        ("empty key", with_entry(entry("", 0, &[0])), "text", "metadata key 0"),
        ("long key", with_entry(entry(&"k".repeat(70_000), 0, &[0])), "text", "metadata key 0"),
        (
            "key not UTF-8",
            gguf_counted(
                3,
                0,
                1,
                &[[&1_u64.to_le_bytes()[..], &[0xff], &0_u32.to_le_bytes(), &[0; 8]].concat()],
                &[],
                1,
                &[],
            ),
            "text",
            "metadata key 0",
        ),
        (
            "key twice",
            gguf(&[entry("k", 0, &[0]), entry("k", 0, &[1])], &[], 32, &[]),
            "duplicate",
            "metadata key 1",
        ),
        ("unknown type", with_entry(entry("k", 13, &[0; 8])), "type", "\"k\" type"),
        ("bool", with_entry(entry("k", 7, &[2])), "type", "\"k\""),
        (
            "text not UTF-8",
            with_entry(entry("k", 8, &[&2_u64.to_le_bytes()[..], &[0xc3, 0x28]].concat())),
            "text",
            "\"k\"",
        ),
        ("text length", with_entry(entry("k", 8, &huge.to_le_bytes())), "truncated", "\"k\""),
        (
            "array of arrays",
            with_entry(entry("k", 9, &array_of(9, 1, &array_of(0, 1, &[0])))),
            "type",
            "\"k\" element type",
        ),
        (
            "array of unknown",
            with_entry(entry("k", 9, &array_of(99, 1, &[0; 8]))),
            "type",
            "\"k\" element type",
        ),
        (
            "array count",
            with_entry(entry("k", 9, &array_of(12, huge / 4, &[0; 64]))),
            "count",
            "\"k\" count",
        ),
        (
            "array of texts, count",
            with_entry(entry("k", 9, &array_of(8, huge, &[0; 64]))),
            "count",
            "\"k\" count",
        ),
        (
            "text of an array",
            with_entry(entry("k", 9, &array_of(8, 2, &[text("a"), vec![0xff; 32]].concat()))),
            "truncated",
            "\"k\" element 1",
        ),
        (
            "bool of an array",
            with_entry(entry("k", 9, &array_of(7, 2, &[1, 7]))),
            "type",
            "\"k\" element 1",
        ),
        (
            "alignment type",
            with_entry(entry("general.alignment", 10, &32_u64.to_le_bytes())),
            "type",
            "general.alignment",
        ),
        (
            "alignment zero",
            with_entry(entry("general.alignment", 4, &0_u32.to_le_bytes())),
            "alignment",
            "general.alignment",
        ),
        (
            "alignment odd",
            with_entry(entry("general.alignment", 4, &24_u32.to_le_bytes())),
            "alignment",
            "general.alignment",
        ),
        ("tensor name", with_tensors(&[tensor("", &[1], 0, 0)], 32), "text", "tensor 0 name"),
        (
            "long tensor name",
            with_tensors(&[tensor(&"n".repeat(65), &[1], 0, 0)], 32),
            "text",
            "tensor 0 name",
        ),
        (
            "tensor twice",
            with_tensors(&[tensor("a", &[1], 0, 0), tensor("a", &[1], 0, 32)], 64),
            "duplicate",
            "tensor 1 name",
        ),
        ("no dimensions", with_tensors(&[tensor("a", &[], 0, 0)], 32), "count", "dimensions"),
        (
            "many dimensions",
            with_tensors(&[tensor("a", &[1; 5], 0, 0)], 32),
            "count",
            "tensor \"a\" dimensions",
        ),
        ("extent zero", with_tensors(&[tensor("a", &[4, 0], 0, 0)], 32), "shape", "extent 1"),
        (
            "product overflows",
            with_tensors(&[tensor("a", &[1 << 40, 1 << 40], 0, 0)], 32),
            "shape",
            "tensor \"a\" shape",
        ),
        (
            "bytes overflow",
            with_tensors(&[tensor("a", &[1 << 63], 0, 0)], 32),
            "shape",
            "tensor \"a\" shape",
        ),
        (
            "part of a block",
            with_tensors(&[tensor("a", &[33], 8, 0)], 64),
            "shape",
            "multiple of 32",
        ),
        (
            "rows of part blocks",
            with_tensors(&[tensor("a", &[16, 2], 8, 0)], 64),
            "shape",
            "multiple of 32",
        ),
        ("unknown format", with_tensors(&[tensor("a", &[1], 4, 0)], 32), "type", "\"a\" type"),
        ("odd offset", with_tensors(&[tensor("a", &[1], 0, 4)], 32), "alignment", "\"a\" offset"),
        ("beyond the end", with_tensors(&[tensor("a", &[9], 0, 0)], 32), "range", "\"a\" offset"),
        (
            "offset overflows",
            with_tensors(&[tensor("a", &[1], 0, huge - 31)], 32),
            "range",
            "\"a\" offset",
        ),
        (
            "end overflows",
            with_tensors(&[tensor("a", &[1 << 61], 0, 1 << 63)], 32),
            "range",
            "\"a\" offset",
        ),
        (
            "overlap",
            with_tensors(&[tensor("b", &[16], 0, 32), tensor("a", &[9], 0, 0)], 128),
            "overlap",
            "tensor \"b\" offset",
        ),
    ];
    for (what, bytes, code, field) in cases {
        match Gguf::from_bytes(bytes) {
            Ok(_) => panic!("{what}: read"),
            Err(error) => {
                assert_eq!(error.code(), code, "{what}: {error}");
                assert!(error.to_string().contains(field), "{what}: {error}");
            }
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sound_gguf();
    for end in 0..bytes.len() {
        assert!(Gguf::from_bytes(bytes[..end].to_vec()).is_err(), "{end}");
    }
}

#[test]
fn error_messages_are_one_line() {
    let key = "k\n\u{1b}[2J".repeat(100);
    let error = Gguf::from_bytes(with_entry(entry(&key, 13, &[0; 8]))).err().unwrap().to_string();
    assert!(error.len() < 300, "{error}");
    assert!(!error.contains(['\n', '\u{1b}']), "{error}");
}

#[test]
fn unreadable_file_is_named() {
    let error = Gguf::open(std::path::Path::new("no/such.gguf")).err().unwrap();
    assert_eq!(error.code(), "io");
    assert!(error.to_string().starts_with("no/such.gguf: "), "{error}");
    let error = Gguf::open(std::path::Path::new(".")).err().unwrap();
    assert_eq!(error.code(), "io");
}
