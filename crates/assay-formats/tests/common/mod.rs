//! Files made byte by byte, so that each part can be wrong on purpose.

#![allow(dead_code)]

pub mod speech;

/// One entry of the metadata, its value as bytes.
pub fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key)[..], &kind.to_le_bytes(), value].concat()
}

/// A length and a text.
pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The description of a tensor.
pub fn tensor(name: &str, extents: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = text(name);
    bytes.extend((extents.len() as u32).to_le_bytes());
    bytes.extend(extents.iter().flat_map(|extent| extent.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// A GGUF file with these parts; `data` starts at the next multiple of `alignment`.
pub fn gguf(entries: &[Vec<u8>], tensors: &[Vec<u8>], alignment: usize, data: &[u8]) -> Vec<u8> {
    gguf_counted(3, tensors.len() as u64, entries.len() as u64, entries, tensors, alignment, data)
}

/// The same with a version and counts of one's own.
pub fn gguf_counted(
    version: u32,
    tensor_count: u64,
    entry_count: u64,
    entries: &[Vec<u8>],
    tensors: &[Vec<u8>],
    alignment: usize,
    data: &[u8],
) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(tensor_count.to_le_bytes());
    bytes.extend(entry_count.to_le_bytes());
    bytes.extend(entries.concat());
    bytes.extend(tensors.concat());
    bytes.resize(bytes.len().next_multiple_of(alignment), 0);
    bytes.extend(data);
    bytes
}

/// A sound file with every kind of metadata and three tensors.
pub fn sound_gguf() -> Vec<u8> {
    let strings = [
        8_u32.to_le_bytes().to_vec(),
        3_u64.to_le_bytes().to_vec(),
        text("a"),
        text(""),
        text("b c"),
    ];
    let numbers = [
        6_u32.to_le_bytes().to_vec(),
        2_u64.to_le_bytes().to_vec(),
        1.5_f32.to_le_bytes().to_vec(),
        (-2.0_f32).to_le_bytes().to_vec(),
    ];
    let truths = [7_u32.to_le_bytes().to_vec(), 2_u64.to_le_bytes().to_vec(), vec![0, 1]];
    gguf(
        &[
            entry("general.architecture", 8, &text("llama")),
            entry("u8", 0, &[200]),
            entry("i8", 1, &[200]),
            entry("u16", 2, &65_535_u16.to_le_bytes()),
            entry("i16", 3, &(-2_i16).to_le_bytes()),
            entry("u32", 4, &4_000_000_000_u32.to_le_bytes()),
            entry("i32", 5, &(-3_i32).to_le_bytes()),
            entry("f32", 6, &0.25_f32.to_le_bytes()),
            entry("bool", 7, &[1]),
            entry("u64", 10, &u64::MAX.to_le_bytes()),
            entry("i64", 11, &i64::MIN.to_le_bytes()),
            entry("f64", 12, &0.1_f64.to_le_bytes()),
            entry("strings", 9, &strings.concat()),
            entry("numbers", 9, &numbers.concat()),
            entry("truths", 9, &truths.concat()),
        ],
        &[tensor("a", &[4, 2], 0, 0), tensor("b", &[32, 2], 8, 32), tensor("c", &[3], 30, 128)],
        32,
        &(0..=255).cycle().take(134).collect::<Vec<u8>>(),
    )
}

/// A safetensors file with this header and data.
pub fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&text(header)[..], data].concat()
}

/// A sound file with metadata, an empty tensor and two others.
pub fn sound_safetensors() -> Vec<u8> {
    safetensors(
        r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"empty":{"dtype":"U8","shape":[0,7],"data_offsets":[16,16]}}   "#,
        &(0..16).collect::<Vec<u8>>(),
    )
}

/// A number of a protobuf message, seven bits a byte.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A protobuf field that holds a number.
pub fn number_field(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

/// A protobuf field that holds bytes: a text, a message or packed numbers.
pub fn bytes_field(field: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

/// An ONNX tensor: name, extents, type, and the field that holds its numbers.
pub fn onnx_tensor(name: &str, extents: &[u64], kind: u64, values: &[u8]) -> Vec<u8> {
    let extents: Vec<u8> = extents.iter().flat_map(|extent| number_field(1, *extent)).collect();
    [&extents[..], &number_field(2, kind), &bytes_field(8, name.as_bytes()), values].concat()
}

/// An ONNX model of this graph.
pub fn onnx(graph: &[u8]) -> Vec<u8> {
    let operator_set = [bytes_field(1, b""), number_field(2, 20)].concat();
    [
        number_field(1, 9),
        bytes_field(2, b"a program"),
        bytes_field(7, graph),
        bytes_field(8, &operator_set),
    ]
    .concat()
}

/// A sound file: initializers stored in each way, a node with each kind of attribute.
pub fn sound_onnx() -> Vec<u8> {
    let floats: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let doubles = 0.1_f64.to_le_bytes();
    let small = onnx_tensor("t", &[], 6, &bytes_field(5, &varint(7)));
    let branch = [
        bytes_field(1, &bytes_field(4, b"Identity")),
        bytes_field(2, b"branch"),
        bytes_field(5, &onnx_tensor("inner", &[1], 2, &bytes_field(9, &[9]))),
    ]
    .concat();
    let attribute = |name: &str, kind: u64, value: Vec<u8>| {
        bytes_field(5, &[bytes_field(1, name.as_bytes()), value, number_field(20, kind)].concat())
    };
    let node = [
        bytes_field(1, b"x"),
        bytes_field(1, b""),
        bytes_field(2, b"y"),
        bytes_field(3, b"/a/Conv"),
        bytes_field(4, b"Conv"),
        bytes_field(7, b"com.example"),
        attribute("f", 1, [&varint(2 << 3 | 5)[..], &0.5_f32.to_le_bytes()].concat()),
        attribute("i", 2, number_field(3, u64::MAX)),
        attribute("s", 3, bytes_field(4, b"text")),
        attribute("t", 4, bytes_field(5, &small)),
        attribute("g", 5, bytes_field(6, &branch)),
        attribute("fs", 6, bytes_field(7, &floats)),
        attribute("is", 7, [number_field(8, 1), number_field(8, 300)].concat()),
        attribute("ss", 8, [bytes_field(9, b"a"), bytes_field(9, b"")].concat()),
    ]
    .concat();
    let integers = [varint(1), varint(u64::MAX), varint(300)].concat();
    let graph = [
        bytes_field(1, &node),
        bytes_field(2, b"main"),
        bytes_field(5, &onnx_tensor("raw", &[2, 1], 1, &bytes_field(9, &floats))),
        bytes_field(5, &onnx_tensor("floats", &[2], 1, &bytes_field(4, &floats))),
        bytes_field(5, &onnx_tensor("integers", &[3], 7, &bytes_field(7, &integers))),
        bytes_field(5, &onnx_tensor("bytes", &[3], 3, &bytes_field(5, &integers))),
        bytes_field(5, &onnx_tensor("half", &[1], 10, &number_field(5, 0x3c00))),
        bytes_field(5, &onnx_tensor("doubles", &[1], 11, &bytes_field(10, &doubles))),
        bytes_field(5, &onnx_tensor("empty", &[0], 1, &[])),
        bytes_field(11, &bytes_field(1, b"x")),
        bytes_field(12, &bytes_field(1, b"y")),
    ]
    .concat();
    onnx(&graph)
}
