//! The JSON header: unique names, all fields present, no unknown fields.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Fault, FormatError, Result, quoted};
use assay_operations::ElementFormat;

const METADATA: &str = "__metadata__";
/// More dimensions than any library can hold.
const MOST_DIMENSIONS: usize = 32;

/// A tensor's entry in the header.
pub(super) struct Described {
    pub name: String,
    pub format: ElementFormat,
    pub shape: Vec<u64>,
    pub offsets: [u64; 2],
}

/// A parsed header, not yet validated against the file.
pub(super) struct Header {
    pub metadata: Vec<(String, String)>,
    pub tensors: Vec<Described>,
}

pub(super) fn parse(text: &str) -> Result<Header> {
    let mut header = Header { metadata: Vec::new(), tensors: Vec::new() };
    for (name, raw) in object("header", text)? {
        if name == METADATA {
            for (key, value) in object(METADATA, raw)? {
                let field = format!("{METADATA} {}", quoted(&key));
                let value = json::<String>(&field, "a text", value)?;
                header.metadata.push((key, value));
            }
        } else {
            header.tensors.push(describe(name, raw)?);
        }
    }
    Ok(header)
}

fn describe(name: String, raw: &str) -> Result<Described> {
    let field = format!("tensor {}", quoted(&name));
    let (mut format, mut shape, mut offsets) = (None, None, None);
    for (key, raw) in object(&field, raw)? {
        match key.as_str() {
            "dtype" => format = Some(read_type(&format!("{field} dtype"), raw)?),
            "shape" => {
                let extents: Vec<u64> =
                    json(&format!("{field} shape"), "extents from 0 to 2^64 - 1", raw)?;
                if extents.len() > MOST_DIMENSIONS {
                    return Err(FormatError::new(
                        Fault::Count,
                        format_args!("{field} shape"),
                        format_args!("at most {MOST_DIMENSIONS} dimensions"),
                        extents.len(),
                    ));
                }
                shape = Some(extents);
            }
            "data_offsets" => {
                let expected = "two offsets from 0 to 2^64 - 1";
                let range: Vec<u64> = json(&format!("{field} data_offsets"), expected, raw)?;
                offsets = Some(<[u64; 2]>::try_from(range).map_err(|range| {
                    FormatError::new(
                        Fault::Json,
                        format_args!("{field} data_offsets"),
                        expected,
                        format_args!("{} of them", range.len()),
                    )
                })?);
            }
            _ => {
                return Err(FormatError::new(
                    Fault::Json,
                    &field,
                    "the fields dtype, shape and data_offsets",
                    quoted(&key),
                ));
            }
        }
    }
    let missing =
        |key: &str| FormatError::new(Fault::Json, format_args!("{field} {key}"), "a value", "none");
    Ok(Described {
        format: format.ok_or_else(|| missing("dtype"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
        offsets: offsets.ok_or_else(|| missing("data_offsets"))?,
        name,
    })
}

fn read_type(field: &str, raw: &str) -> Result<ElementFormat> {
    let name: String = json(field, "the name of a type", raw)?;
    Ok(match name.as_str() {
        "BOOL" => ElementFormat::Bool,
        "U8" => ElementFormat::U8,
        "I8" => ElementFormat::I8,
        "F8_E4M3" => ElementFormat::F8E4M3,
        "F8_E5M2" => ElementFormat::F8E5M2,
        "F8_E8M0" => ElementFormat::F8E8M0,
        "U16" => ElementFormat::U16,
        "I16" => ElementFormat::I16,
        "F16" => ElementFormat::F16,
        "BF16" => ElementFormat::Bf16,
        "U32" => ElementFormat::U32,
        "I32" => ElementFormat::I32,
        "F32" => ElementFormat::F32,
        "U64" => ElementFormat::U64,
        "I64" => ElementFormat::I64,
        "F64" => ElementFormat::F64,
        _ => {
            return Err(FormatError::new(
                Fault::Type,
                field,
                "a type of whole bytes, such as F32, BF16 or U8",
                quoted(&name),
            ));
        }
    })
}

fn json<'a, T: serde::Deserialize<'a>>(field: &str, expected: &str, raw: &'a str) -> Result<T> {
    serde_json::from_str(raw)
        .map_err(|error| FormatError::new(Fault::Json, field, expected, describe_json(&error)))
}

fn describe_json(error: &serde_json::Error) -> String {
    // The library's message may quote the file.
    quoted(&error.to_string()).trim_matches('"').to_owned()
}

/// The entries of a JSON object, values unread; a repeated name is refused.
fn object<'a>(field: &str, raw: &'a str) -> Result<Vec<(String, &'a str)>> {
    let mut reader = serde_json::Deserializer::from_str(raw);
    let entries = reader
        .deserialize_map(Entries)
        .and_then(|entries| reader.end().map(|()| entries))
        .map_err(|error| {
            FormatError::new(Fault::Json, field, "an object", describe_json(&error))
        })?;
    let mut names = HashSet::new();
    for (name, _) in &entries {
        if !names.insert(name.as_str()) {
            return Err(FormatError::new(
                Fault::Duplicate,
                field,
                "every name once",
                format_args!("{} twice", quoted(name)),
            ));
        }
    }
    Ok(entries)
}

struct Entries;

impl<'a> Visitor<'a> for Entries {
    type Value = Vec<(String, &'a str)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'a RawValue>()? {
            entries.push((name, value.get()));
        }
        Ok(entries)
    }
}
