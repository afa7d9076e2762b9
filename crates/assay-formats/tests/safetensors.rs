//! Safetensors: sound files are read as they were written, unsound ones are refused by field.

mod common;

use assay_formats::{ElementFormat, SafeTensors};
use common::{safetensors, sound_safetensors};

#[test]
fn tensors_are_ranges_of_the_file() {
    let bytes = sound_safetensors();
    let data = bytes.len() - 16;
    let file = SafeTensors::from_bytes(bytes).unwrap();
    assert_eq!(file.metadata(), [("format".to_owned(), "pt".to_owned())]);
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
            ("b", ElementFormat::Bf16, vec![2, 2], data + 8..data + 16),
            ("a", ElementFormat::F32, vec![2], data..data + 8),
            ("empty", ElementFormat::U8, vec![0, 7], data + 16..data + 16),
        ]
    );
}

#[test]
fn every_dtype_is_read() {
    for (name, bytes) in [
        ("BOOL", 1),
        ("U8", 1),
        ("I8", 1),
        ("F8_E4M3", 1),
        ("F8_E5M2", 1),
        ("F8_E8M0", 1),
        ("U16", 2),
        ("I16", 2),
        ("F16", 2),
        ("BF16", 2),
        ("U32", 4),
        ("I32", 4),
        ("F32", 4),
        ("U64", 8),
        ("I64", 8),
        ("F64", 8),
    ] {
        let header =
            format!(r#"{{"a":{{"dtype":"{name}","shape":[],"data_offsets":[0,{bytes}]}}}}"#);
        let file = SafeTensors::from_bytes(safetensors(&header, &vec![0; bytes])).unwrap();
        assert_eq!(file.tensors()[0].range.len(), bytes, "{name}");
    }
}

#[test]
fn invalid_fields_are_named() {
    let one = |fields: &str| safetensors(&format!(r#"{{"a":{{{fields}}}}}"#), &[0; 8]);
    let two = |first: &str, second: &str| {
        safetensors(
            &format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
            ),
            &[0; 8],
        )
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("empty", vec![], "truncated", "header length"),
        ("huge header", u64::MAX.to_le_bytes().to_vec(), "count", "header length"),
        ("missing header", 50_u64.to_le_bytes().to_vec(), "truncated", "header"),
        ("not UTF-8", [&2_u64.to_le_bytes()[..], &[0xff, 0xfe]].concat(), "text", "header"),
        ("no JSON", safetensors("hello", &[]), "json", "header"),
        ("no object", safetensors("[1]", &[]), "json", "header"),
        ("two objects", safetensors("{}{}", &[]), "json", "header"),
        ("tensor is no object", safetensors(r#"{"a":1}"#, &[]), "json", "tensor \"a\""),
        ("deep", safetensors(&format!(r#"{{"a":{deep}}}"#), &[]), "json", "tensor \"a\""),
        (
            "metadata is no text",
            safetensors(r#"{"__metadata__":{"k":1}}"#, &[]),
            "json",
            "__metadata__ \"k\"",
        ),
        (
            "name twice",
            safetensors(
                r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#,
                &[0; 8],
            ),
            "duplicate",
            "\"a\" twice",
        ),
        (
            "field twice",
            one(r#""dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]"#),
            "duplicate",
            "\"dtype\" twice",
        ),
        ("no dtype", one(r#""shape":[8],"data_offsets":[0,8]"#), "json", "\"a\" dtype"),
        ("no shape", one(r#""dtype":"U8","data_offsets":[0,8]"#), "json", "\"a\" shape"),
        ("no offsets", one(r#""dtype":"U8","shape":[8]"#), "json", "\"a\" data_offsets"),
        (
            "unknown field",
            one(r#""dtype":"U8","shape":[8],"data_offsets":[0,8],"strides":[1]"#),
            "json",
            "\"strides\"",
        ),
        (
            "unknown type",
            one(r#""dtype":"F4","shape":[8],"data_offsets":[0,8]"#),
            "type",
            "\"a\" dtype",
        ),
        (
            "negative extent",
            one(r#""dtype":"U8","shape":[-8],"data_offsets":[0,8]"#),
            "json",
            "\"a\" shape",
        ),
        (
            "huge extent",
            one(r#""dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,8]"#),
            "json",
            "\"a\" shape",
        ),
        (
            "product overflows",
            one(r#""dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]"#),
            "shape",
            "\"a\" shape",
        ),
        (
            "bytes overflow",
            one(r#""dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]"#),
            "shape",
            "\"a\" shape",
        ),
        (
            "dimensions",
            one(&format!(r#""dtype":"U8","shape":[8{}],"data_offsets":[0,8]"#, ",1".repeat(40))),
            "count",
            "\"a\" shape",
        ),
        (
            "one offset",
            one(r#""dtype":"U8","shape":[8],"data_offsets":[8]"#),
            "json",
            "\"a\" data_offsets",
        ),
        (
            "backwards",
            one(r#""dtype":"U8","shape":[8],"data_offsets":[8,0]"#),
            "range",
            "\"a\" data_offsets",
        ),
        (
            "beyond the end",
            one(r#""dtype":"U8","shape":[9],"data_offsets":[0,9]"#),
            "range",
            "\"a\" data_offsets",
        ),
        (
            "wrong length",
            one(r#""dtype":"F32","shape":[1],"data_offsets":[0,8]"#),
            "range",
            "4 bytes",
        ),
        ("overlap", two("[0,4]", "[2,6]"), "overlap", "tensor \"b\" offset"),
        ("same bytes", two("[0,4]", "[0,4]"), "overlap", "offset"),
        (
            "hole",
            safetensors(r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#, &[0; 6]),
            "hole",
            "\"a\" data_offsets",
        ),
        (
            "bytes behind",
            safetensors(r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#, &[0; 6]),
            "hole",
            "data",
        ),
    ];
    for (what, bytes, code, field) in cases {
        match SafeTensors::from_bytes(bytes) {
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
    let bytes = sound_safetensors();
    for end in 0..bytes.len() {
        assert!(SafeTensors::from_bytes(bytes[..end].to_vec()).is_err(), "{end}");
    }
}
