//! Any bytes as an ONNX file: read whole, or refused.
#![no_main]

use assay_formats::Onnx;
use assay_formats::onnx::{Attribute, Graph};

fn read(graph: &Graph) {
    for stored in &graph.initializers {
        let _ = &stored.mapping.bytes()[stored.tensor.range.clone()];
    }
    for (_, value) in graph.nodes.iter().flat_map(|node| &node.attributes) {
        match value {
            Attribute::Tensor(stored) => {
                let _ = &stored.mapping.bytes()[stored.tensor.range.clone()];
            }
            Attribute::Graph(inner) => read(inner),
            _ => {}
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = Onnx::from_bytes(bytes.to_vec()) {
        read(file.graph());
    }
});
