//! Models of CTranslate2 (`model.bin`): variables with names, then aliases of them.
//!
//! The layout is that of `src/models/model.cc` in CTranslate2, binary versions 4 to 6.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{Fault, FormatError, Result, quoted};
use crate::mapping::Mapping;
use crate::tensor::{Tensor, sizes};
use assay_operations::ElementFormat;

const OLDEST: u32 = 4;
const NEWEST: u32 = 6;
/// Length of the name, its ending zero, rank, type and bytes.
const SMALLEST_VARIABLE: u64 = 2 + 1 + 1 + 1 + 4;
/// Two strings.
const SMALLEST_ALIAS: u64 = 2 * (2 + 1);
const MOST_DIMENSIONS: u8 = 8;

/// A CTranslate2 model with every variable validated.
pub struct Ctranslate2 {
    mapping: Arc<Mapping>,
    spec: String,
    revision: u32,
    tensors: Vec<Tensor>,
    aliases: Vec<(String, String)>,
}

impl Ctranslate2 {
    /// Maps a file and validates it.
    pub fn open(path: &Path) -> Result<Self> {
        Ctranslate2::from_mapping(Mapping::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Validates bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Ctranslate2::from_mapping(Mapping::from_bytes(bytes))
    }

    fn from_mapping(mapping: Mapping) -> Result<Self> {
        let mut cursor = Cursor::new(mapping.bytes());
        let version = cursor.u32("version")?;
        if !(OLDEST..=NEWEST).contains(&version) {
            return Err(FormatError::new(
                Fault::Version,
                "version",
                format_args!("{OLDEST} to {NEWEST}, of a CTranslate2 model.bin"),
                version,
            ));
        }
        let spec = text(&mut cursor, "specification")?.to_owned();
        let revision = cursor.u32("revision")?;
        let count = u64::from(cursor.u32("number of variables")?);
        cursor.check_count("number of variables", count, SMALLEST_VARIABLE)?;
        let mut names = HashSet::new();
        let mut tensors = Vec::new();
        for index in 0..count {
            let tensor = variable(&mut cursor, index)?;
            if !names.insert(tensor.name.clone()) {
                return Err(FormatError::new(
                    Fault::Duplicate,
                    format_args!("variable {index} name"),
                    "a name that no other variable has",
                    quoted(&tensor.name),
                ));
            }
            tensors.push(tensor);
        }
        let aliases = read_aliases(&mut cursor, names)?;
        if cursor.remaining() > 0 {
            return Err(FormatError::new(
                Fault::Hole,
                "end of the file",
                "no bytes behind the aliases",
                cursor.remaining(),
            ));
        }
        Ok(Ctranslate2 { mapping: Arc::new(mapping), spec, revision, tensors, aliases })
    }

    /// The name of the model's specification, such as `WhisperSpec`.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// The revision of the specification.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// The variables in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Other names of variables, each with the name it stands for.
    pub fn aliases(&self) -> &[(String, String)] {
        &self.aliases
    }

    /// The file's mapping, which may outlive this value.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// A string: its length with the ending zero, its bytes, the zero.
fn text<'a>(cursor: &mut Cursor<'a>, field: &str) -> Result<&'a str> {
    let length = u64::from(cursor.u16(field)?);
    let text = cursor.text_of(field, length)?;
    match text.strip_suffix('\0') {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(FormatError::new(Fault::Text, field, "a name that ends in a zero", quoted(text))),
    }
}

fn variable(cursor: &mut Cursor<'_>, index: u64) -> Result<Tensor> {
    let name = text(cursor, &format!("variable {index} name"))?;
    let field = format!("variable {}", quoted(name));
    let rank = cursor.u8(&format!("{field} rank"))?;
    if rank > MOST_DIMENSIONS {
        return Err(FormatError::new(
            Fault::Count,
            format_args!("{field} rank"),
            format_args!("at most {MOST_DIMENSIONS} dimensions"),
            rank,
        ));
    }
    let mut shape = Vec::with_capacity(usize::from(rank));
    for dimension in 0..rank {
        shape.push(u64::from(cursor.u32(&format!("{field} extent {dimension}"))?));
    }
    let format = match cursor.u8(&format!("{field} type"))? {
        0 => ElementFormat::F32,
        1 => ElementFormat::I8,
        2 => ElementFormat::I16,
        3 => ElementFormat::I32,
        4 => ElementFormat::F16,
        5 => ElementFormat::Bf16,
        other => {
            return Err(FormatError::new(
                Fault::Type,
                format_args!("{field} type"),
                "0 to 5",
                other,
            ));
        }
    };
    let stored = u64::from(cursor.u32(&format!("{field} bytes"))?);
    let bytes = sizes(&field, format, &shape)?;
    if stored != bytes {
        return Err(FormatError::new(
            Fault::Range,
            format_args!("{field} bytes"),
            format_args!("{bytes} for {shape:?} of {format}"),
            stored,
        ));
    }
    let start = cursor.position();
    cursor.take(&field, bytes)?;
    Ok(Tensor { name: name.to_owned(), format, shape, range: start..cursor.position() })
}

fn read_aliases(
    cursor: &mut Cursor<'_>,
    mut names: HashSet<String>,
) -> Result<Vec<(String, String)>> {
    let count = u64::from(cursor.u32("number of aliases")?);
    cursor.check_count("number of aliases", count, SMALLEST_ALIAS)?;
    let mut aliases = Vec::new();
    for index in 0..count {
        let alias = text(cursor, &format!("alias {index}"))?.to_owned();
        let target = text(cursor, &format!("alias {index} target"))?.to_owned();
        if !names.contains(&target) {
            return Err(FormatError::new(
                Fault::Range,
                format_args!("alias {index} target"),
                "the name of a variable",
                quoted(&target),
            ));
        }
        if !names.insert(alias.clone()) {
            return Err(FormatError::new(
                Fault::Duplicate,
                format_args!("alias {index}"),
                "a name that nothing else has",
                quoted(&alias),
            ));
        }
        aliases.push((alias, target));
    }
    Ok(aliases)
}
