//! ONNX files: what is read of them, and what is refused.

mod common;

use assay_formats::onnx::{Attribute, OnnxTensor};
use assay_formats::{ElementFormat, Fault, Onnx};
use common::{bytes_field, number_field, onnx, onnx_tensor, sound_onnx, varint};

fn bytes(stored: &OnnxTensor) -> &[u8] {
    &stored.mapping.bytes()[stored.tensor.range.clone()]
}

fn fault(graph: &[u8]) -> (Fault, String) {
    let Err(error) = Onnx::from_bytes(onnx(graph)) else { panic!("it was read") };
    (error.fault, error.to_string())
}

#[test]
fn initializers_are_read_however_they_are_stored() {
    let file = Onnx::from_bytes(sound_onnx()).expect("a sound file");
    let graph = file.graph();
    assert_eq!((file.producer(), file.operator_sets()), ("a program", &[(String::new(), 20)][..]));
    assert_eq!((&graph.name[..], &graph.inputs[..]), ("main", &["x".to_owned()][..]));
    assert_eq!(graph.outputs, ["y"]);
    let expected: [(&str, ElementFormat, &[u64], Vec<u8>); 7] = [
        ("raw", ElementFormat::F32, &[2, 1], vec![0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]),
        ("floats", ElementFormat::F32, &[2], vec![0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0]),
        (
            "integers",
            ElementFormat::I64,
            &[3],
            [1_i64, -1, 300].iter().flat_map(|number| number.to_le_bytes()).collect(),
        ),
        ("bytes", ElementFormat::I8, &[3], vec![1, 0xff, 44]),
        ("half", ElementFormat::F16, &[1], vec![0, 0x3c]),
        ("doubles", ElementFormat::F64, &[1], 0.1_f64.to_le_bytes().to_vec()),
        ("empty", ElementFormat::F32, &[0], vec![]),
    ];
    assert_eq!(graph.initializers.len(), expected.len());
    for (stored, (name, format, shape, values)) in graph.initializers.iter().zip(expected) {
        assert_eq!((&stored.tensor.name[..], stored.tensor.format), (name, format));
        assert_eq!((&stored.tensor.shape[..], bytes(stored)), (shape, &values[..]));
    }
}

#[test]
fn nodes_have_their_attributes() {
    let file = Onnx::from_bytes(sound_onnx()).expect("a sound file");
    let [node] = &file.graph().nodes[..] else { panic!("one node") };
    assert_eq!((&node.name[..], &node.operation[..]), ("/a/Conv", "Conv"));
    assert_eq!((&node.domain[..], &node.outputs[..]), ("com.example", &["y".to_owned()][..]));
    assert_eq!(node.inputs, ["x", ""]);
    let names: Vec<&str> = node.attributes.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["f", "i", "s", "t", "g", "fs", "is", "ss"]);
    let value = |name: &str| {
        &node.attributes.iter().find(|(other, _)| other == name).expect("an attribute").1
    };
    assert!(matches!(value("f"), Attribute::Float(0.5)));
    assert!(matches!(value("i"), Attribute::Int(-1)));
    assert!(matches!(value("s"), Attribute::Bytes(text) if text == b"text"));
    assert!(matches!(value("t"), Attribute::Tensor(stored) if bytes(stored) == [7, 0, 0, 0]));
    assert!(matches!(value("fs"), Attribute::Floats(numbers) if numbers[..] == [1.5, -2.0]));
    assert!(matches!(value("is"), Attribute::Ints(numbers) if numbers[..] == [1, 300]));
    assert!(matches!(value("ss"), Attribute::ByteStrings(texts) if texts[..] == [&b"a"[..], b""]));
    let Attribute::Graph(branch) = value("g") else { panic!("a graph") };
    assert_eq!((&branch.name[..], branch.nodes.len()), ("branch", 1));
    assert_eq!(bytes(&branch.initializers[0]), [9]);
}

#[test]
fn faults_name_the_field() {
    let initializer = |tensor: Vec<u8>| bytes_field(5, &tensor);
    let raw = bytes_field(9, &[0; 4]);
    let cases = [
        (initializer(onnx_tensor("a", &[2], 1, &raw)), Fault::Range, "8 bytes for [2] of f32"),
        (initializer(onnx_tensor("a", &[1], 8, &raw)), Fault::Type, "string (8)"),
        (initializer(onnx_tensor("a", &[1], 1, &number_field(14, 1))), Fault::Type, "external"),
        (initializer(onnx_tensor("a", &[1], 1, &number_field(5, 1))), Fault::Type, "type float"),
        (initializer(onnx_tensor("a", &[1 << 40, 1 << 40], 1, &raw)), Fault::Shape, "2^64"),
        (initializer(onnx_tensor("", &[1], 1, &raw)), Fault::Text, "initializer 0 name"),
        (initializer(onnx_tensor("a", &[1], 1, &raw)).repeat(2), Fault::Duplicate, "\"a\""),
        (bytes_field(1, &bytes_field(3, b"n")), Fault::Text, "node \"n\" op_type"),
        (bytes_field(2, &[0xff]), Fault::Text, "UTF-8"),
        (bytes_field(15, &[]), Fault::Type, "sparse"),
        (varint(5 << 3 | 3), Fault::Type, "type 3"),
        (vec![0xff; 11], Fault::Count, "2^64"),
        (varint(5 << 3 | 2), Fault::Truncated, "1 bytes at byte"),
    ];
    for (graph, expected, text) in cases {
        let (fault, message) = fault(&graph);
        assert_eq!(fault, expected, "{message}");
        assert!(message.contains(text), "{message}");
    }
    let without = Onnx::from_bytes(Vec::new()).err().expect("no graph");
    assert_eq!(without.fault, Fault::Magic);
}

#[test]
fn graphs_may_not_nest_without_end() {
    let mut graph = Vec::new();
    for _ in 0..40 {
        let attribute = [bytes_field(1, b"g"), bytes_field(6, &graph)].concat();
        graph = bytes_field(1, &[bytes_field(4, b"If"), bytes_field(5, &attribute)].concat());
    }
    assert_eq!(fault(&graph).0, Fault::Count);
}
