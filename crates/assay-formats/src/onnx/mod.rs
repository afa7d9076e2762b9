//! ONNX: the graph of a model, as a protobuf message.
//!
//! What is read of `onnx.proto`: initializers and nodes with their attributes, in graphs inside
//! attributes, too; not the types of values. Numbers stay where they are in the file, except for
//! the few that it stores with variable length.

mod graph;
mod tensors;
mod wire;

use std::path::Path;
use std::sync::Arc;

pub use graph::{Attribute, Graph, Node};
pub use tensors::OnnxTensor;

use crate::error::{Fault, FormatError, Result};
use crate::mapping::Mapping;
use wire::Fields;

/// An ONNX file that was read whole.
pub struct Onnx {
    producer: String,
    operator_sets: Vec<(String, i64)>,
    graph: Arc<Graph>,
}

impl Onnx {
    /// Maps a file and reads its graph.
    pub fn open(path: &Path) -> Result<Self> {
        Onnx::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Reads the graph of bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Onnx::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let mapping = Arc::new(mapping);
        let mut fields = Fields::new(mapping.bytes(), 0..mapping.bytes().len(), "model");
        let mut producer = String::new();
        let mut operator_sets = Vec::new();
        let mut graph = None;
        while let Some((number, value)) = fields.next()? {
            match number {
                2 => producer = fields.text(&value)?,
                7 if graph.is_some() => {
                    return Err(FormatError::new(Fault::Duplicate, "graph", "one", "a second"));
                }
                7 => graph = Some(graph::read(&mapping, fields.range(&value)?, 0)?),
                8 => operator_sets.push(operator_set(&mapping, fields.range(&value)?)?),
                _ => {}
            }
        }
        let Some(graph) = graph else {
            return Err(FormatError::new(
                Fault::Magic,
                "graph",
                "the graph of an ONNX model",
                "a message without one",
            ));
        };
        Ok(Onnx { producer, operator_sets, graph: Arc::new(graph) })
    }

    /// The program that wrote it.
    pub fn producer(&self) -> &str {
        &self.producer
    }

    /// The version of each set of operators, by its domain; the standard's is empty.
    pub fn operator_sets(&self) -> &[(String, i64)] {
        &self.operator_sets
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }
}

fn operator_set(mapping: &Mapping, range: std::ops::Range<usize>) -> Result<(String, i64)> {
    let mut fields = Fields::new(mapping.bytes(), range, "opset_import");
    let mut domain = String::new();
    let mut version = 0;
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => domain = fields.text(&value)?,
            2 => version = fields.number(&value)?.cast_signed(),
            _ => {}
        }
    }
    Ok((domain, version))
}
