//! Graphs, their nodes, and attributes, which may hold graphs.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::tensors::{self, OnnxTensor};
use super::wire::{Fields, Wire};
use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;

/// Graphs inside attributes of nodes, inside graphs: no model nests deeper.
const DEEPEST: usize = 16;

/// A graph: the model's, or one inside an attribute.
pub struct Graph {
    /// Its name.
    pub name: String,
    /// The names of its inputs.
    pub inputs: Vec<String>,
    /// The names of its outputs.
    pub outputs: Vec<String>,
    /// The tensors that it is given, in the order of the file.
    pub initializers: Vec<OnnxTensor>,
    /// Its nodes, in the order of the file: each comes after those it reads.
    pub nodes: Vec<Node>,
}

/// A node: an operation on values that are known by name.
pub struct Node {
    /// Its name; may be empty.
    pub name: String,
    /// The operation, such as `Conv`.
    pub operation: String,
    /// The set of operators that it belongs to; empty for the standard's.
    pub domain: String,
    /// The values it reads; empty where an optional one is left out.
    pub inputs: Vec<String>,
    /// The values it writes.
    pub outputs: Vec<String>,
    /// Its attributes by name, in the order of the file.
    pub attributes: Vec<(String, Attribute)>,
}

/// Reads a `GraphProto` at this depth of nesting.
pub(super) fn read(mapping: &Arc<Mapping>, range: Range<usize>, depth: usize) -> Result<Graph> {
    if depth > DEEPEST {
        return Err(FormatError::new(
            Fault::Count,
            "graph",
            format_args!("graphs nested at most {DEEPEST} deep"),
            "a deeper one",
        ));
    }
    let mut fields = Fields::new(mapping.bytes(), range, "graph");
    let mut graph = Graph {
        name: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        initializers: Vec::new(),
        nodes: Vec::new(),
    };
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => graph.nodes.push(node(mapping, fields.range(&value)?, depth)?),
            2 => graph.name = fields.text(&value)?,
            5 => graph.initializers.push(tensors::read(mapping, fields.range(&value)?)?),
            11 => graph.inputs.push(value_name(mapping, fields.range(&value)?)?),
            12 => graph.outputs.push(value_name(mapping, fields.range(&value)?)?),
            15 => {
                return Err(FormatError::new(
                    Fault::Type,
                    "sparse_initializer",
                    "initializers that are dense",
                    "a sparse one",
                ));
            }
            _ => {}
        }
    }
    check_names(&graph.initializers)?;
    Ok(graph)
}

fn check_names(initializers: &[OnnxTensor]) -> Result<()> {
    let mut names = HashSet::new();
    for (index, initializer) in initializers.iter().enumerate() {
        let name = &initializer.tensor.name;
        let (fault, expected) = if name.is_empty() {
            (Fault::Text, "a name")
        } else if names.insert(name) {
            continue;
        } else {
            (Fault::Duplicate, "a name that no other initializer has")
        };
        let field = format_args!("initializer {index} name").to_string();
        return Err(FormatError::new(fault, field, expected, quoted(name)));
    }
    Ok(())
}

fn node(mapping: &Arc<Mapping>, range: Range<usize>, depth: usize) -> Result<Node> {
    let mut fields = Fields::new(mapping.bytes(), range, "node");
    let mut node = Node {
        name: String::new(),
        operation: String::new(),
        domain: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        attributes: Vec::new(),
    };
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => node.inputs.push(fields.text(&value)?),
            2 => node.outputs.push(fields.text(&value)?),
            3 => node.name = fields.text(&value)?,
            4 => node.operation = fields.text(&value)?,
            5 => {
                let range = fields.range(&value)?;
                node.attributes.push(attribute(mapping, range, depth)?);
            }
            7 => node.domain = fields.text(&value)?,
            _ => {}
        }
    }
    if node.operation.is_empty() {
        return Err(FormatError::new(
            Fault::Text,
            format_args!("node {} op_type", quoted(&node.name)),
            "the name of an operation",
            "none",
        ));
    }
    Ok(node)
}

/// The name in a `ValueInfoProto`.
fn value_name(mapping: &Mapping, range: Range<usize>) -> Result<String> {
    let mut fields = Fields::new(mapping.bytes(), range, "value");
    let mut name = String::new();
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            name = fields.text(&value)?;
        }
    }
    Ok(name)
}

/// The value of an attribute.
#[derive(Clone)]
pub enum Attribute {
    /// A number.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A text; some exporters store other bytes.
    Bytes(Vec<u8>),
    /// A tensor.
    Tensor(OnnxTensor),
    /// A graph, such as a branch of `If`.
    Graph(Arc<Graph>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    ByteStrings(Vec<Vec<u8>>),
}

/// Every field of an `AttributeProto` that may hold a value.
#[derive(Default)]
struct Values {
    float: f32,
    int: u64,
    bytes: Vec<u8>,
    tensor: Option<OnnxTensor>,
    graph: Option<Graph>,
    floats: Vec<f32>,
    ints: Vec<u64>,
    byte_strings: Vec<Vec<u8>>,
}

/// Reads an `AttributeProto` of a node in a graph at this depth.
fn attribute(
    mapping: &Arc<Mapping>,
    range: Range<usize>,
    depth: usize,
) -> Result<(String, Attribute)> {
    let bytes = mapping.bytes();
    let mut fields = Fields::new(bytes, range, "attribute");
    let mut name = String::new();
    let mut code = 0;
    let mut last = 0;
    let mut values = Values::default();
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = fields.text(&value)?,
            2 => match value {
                Wire::Fixed32(word) => values.float = f32::from_le_bytes(word),
                _ => return Err(wrong_type(&name, "a number of four bytes", "another")),
            },
            3 => values.int = fields.number(&value)?,
            4 => values.bytes = bytes[fields.range(&value)?].to_vec(),
            5 => values.tensor = Some(tensors::read(mapping, fields.range(&value)?)?),
            6 => values.graph = Some(read(mapping, fields.range(&value)?, depth + 1)?),
            7 => fields.floats(&value, &mut values.floats)?,
            8 => fields.varints(&value, &mut values.ints)?,
            9 => values.byte_strings.push(bytes[fields.range(&value)?].to_vec()),
            20 => code = fields.number(&value)?,
            _ => {}
        }
        if (2..=11).contains(&number) {
            last = number;
        }
    }
    if name.is_empty() {
        return Err(FormatError::new(Fault::Text, "attribute name", "a name", "none"));
    }
    // Old exporters leave the type out; then the field that is there tells it.
    let code = if code == 0 { last.saturating_sub(1) } else { code };
    let value = values.of_type(code).ok_or_else(|| {
        wrong_type(
            &name,
            "a number, text, tensor, graph or list of them",
            format_args!("type {code}"),
        )
    })?;
    Ok((name, value))
}

impl Values {
    /// The value of this type, as `AttributeProto.AttributeType` numbers them.
    fn of_type(self, code: u64) -> Option<Attribute> {
        Some(match code {
            1 => Attribute::Float(self.float),
            2 => Attribute::Int(self.int.cast_signed()),
            3 => Attribute::Bytes(self.bytes),
            4 => Attribute::Tensor(self.tensor?),
            5 => Attribute::Graph(Arc::new(self.graph?)),
            6 => Attribute::Floats(self.floats),
            7 => Attribute::Ints(self.ints.iter().map(|number| number.cast_signed()).collect()),
            8 => Attribute::ByteStrings(self.byte_strings),
            _ => return None,
        })
    }
}

fn wrong_type(name: &str, expected: &str, got: impl std::fmt::Display) -> FormatError {
    FormatError::new(Fault::Type, format_args!("attribute {}", quoted(name)), expected, got)
}
