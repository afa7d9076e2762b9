//! Writes tables as Parquet, row group by row group.
//!
//! A writer of our own for the few kinds of columns that a trace has: the general one takes longer to
//! compile than everything else in this workspace. See <https://parquet.apache.org/docs/file-format/>.

mod chunk;
mod encoding;
mod thrift;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use self::chunk::{Chunk, physical};
use self::thrift::{Thrift, Type};
use crate::error::{Result, TraceError};
use crate::schema::{DataType, Field, Schema};
use crate::table::{Batch, TraceTable};

/// Rows after which a row group is closed: what a reader takes at once, and what the writer holds.
const GROUP_ROWS: usize = 1 << 18;

const MAGIC: &[u8; 4] = b"PAR1";

const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;

/// A Parquet file that appears under its name when it is complete.
pub struct ParquetFile {
    path: PathBuf,
    staging: PathBuf,
    schema: &'static Schema,
    metadata: Vec<(String, String)>,
    /// None once it is complete or given up.
    file: Option<File>,
    place: u64,
    /// Batches of the row group that is being filled.
    pending: Vec<Batch>,
    groups: Vec<Group>,
}

/// A row group that is written: its rows, and where each of its columns is.
struct Group {
    rows: usize,
    bytes: usize,
    /// The metadata of its columns, as elements of a list.
    columns: Vec<Vec<u8>>,
}

impl ParquetFile {
    /// Starts a file of the columns of `schema`; `metadata` are key-value pairs of its footer.
    pub fn create(path: &Path, schema: &'static Schema, metadata: &[(&str, &str)]) -> Result<Self> {
        let staging = staging_path(path);
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let created = File::create(&staging);
        let mut file = ParquetFile {
            path: path.to_owned(),
            file: Some(created.map_err(|error| TraceError::from(error).of_file(path))?),
            staging,
            schema,
            metadata: metadata.iter().map(owned).collect(),
            place: 0,
            pending: Vec::new(),
            groups: Vec::new(),
        };
        file.put(MAGIC)?;
        Ok(file)
    }

    /// Adds rows.
    pub fn write(&mut self, batch: Batch) -> Result<()> {
        if batch.rows() > 0 {
            self.pending.push(batch);
        }
        if self.pending.iter().map(Batch::rows).sum::<usize>() >= GROUP_ROWS {
            self.close_group()?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.close_group()?;
        }
        let footer = self.footer();
        self.put(&footer)?;
        self.put(&(footer.len() as u32).to_le_bytes())?;
        self.put(MAGIC)?;
        let complete = |file: &File| {
            file.sync_all()?;
            fs::rename(&self.staging, &self.path)
        };
        let completed = self.file.as_ref().map_or(Ok(()), complete);
        completed.map_err(|error| TraceError::from(error).of_file(&self.path))?;
        self.file = None;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.place += bytes.len() as u64;
        let written = self
            .file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes));
        written.map_err(|error| TraceError::from(error).of_file(&self.path))
    }

    fn close_group(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.pending);
        let mut group = Group {
            rows: batches.iter().map(Batch::rows).sum(),
            bytes: 0,
            columns: Vec::new(),
        };
        for (number, field) in self.schema.fields.iter().enumerate() {
            let columns: Vec<_> = batches
                .iter()
                .map(|batch| &batch.columns()[number])
                .collect();
            let chunk = Chunk::new(field, &columns);
            let mut described = Thrift::default();
            described.element(|element| chunk.describe(field, self.place, element));
            group.columns.push(described.bytes);
            group.bytes += chunk.bytes.len();
            self.put(&chunk.bytes)?;
        }
        self.groups.push(group);
        Ok(())
    }

    /// The metadata of the whole file.
    fn footer(&self) -> Vec<u8> {
        let mut footer = Thrift::default();
        footer.element(|file| {
            file.i32(1, 2);
            let elements = schema_elements(self.schema);
            file.list(2, Type::Struct, elements.into_iter(), |list, element| {
                list.bytes.extend(element);
            });
            file.i64(3, self.groups.iter().map(|group| group.rows as i64).sum());
            file.list(4, Type::Struct, self.groups.iter(), |list, group| {
                list.element(|element| {
                    element.list(1, Type::Struct, group.columns.iter(), |list, column| {
                        list.bytes.extend(column);
                    });
                    element.i64(2, group.bytes as i64);
                    element.i64(3, group.rows as i64);
                });
            });
            let arrow = [("ARROW:schema", self.schema.arrow.trim_end())];
            let own = self.metadata.iter();
            let pairs = own.map(|(key, value)| (key.as_str(), value.as_str()));
            let pairs: Vec<_> = pairs.chain(arrow).collect();
            file.list(5, Type::Struct, pairs.into_iter(), |list, (key, value)| {
                list.element(|pair| {
                    pair.binary(1, key.as_bytes());
                    pair.binary(2, value.as_bytes());
                });
            });
            file.binary(6, concat!("assay ", env!("CARGO_PKG_VERSION")).as_bytes());
            // Statistics are in the order of each column's type.
            file.list(7, Type::Struct, self.schema.fields.iter(), |list, _| {
                list.element(|order| order.structure(1, |_| {}));
            });
        });
        footer.bytes
    }
}

impl Drop for ParquetFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nothing is lost if this fails: the file was given up.
            let _ = fs::remove_file(&self.staging);
        }
    }
}

impl TraceTable {
    /// Writes the table as a Parquet file.
    pub fn write_parquet(&self, path: &Path, metadata: &[(&str, &str)]) -> Result<()> {
        let mut file = ParquetFile::create(path, self.schema(), metadata)?;
        for batch in self.batches() {
            file.write(batch.clone())?;
        }
        file.finish()
    }
}

/// A hidden name beside the file, so that renaming stays on one file system.
fn staging_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// The tree of columns, depth first; a list of three is a group of a group.
fn schema_elements(schema: &Schema) -> Vec<Vec<u8>> {
    let element = |fill: &dyn Fn(&mut Thrift)| {
        let mut element = Thrift::default();
        element.element(fill);
        element.bytes
    };
    let root = element(&|root| {
        root.binary(4, b"schema");
        root.i32(5, schema.fields.len() as i32);
    });
    let mut elements = vec![root];
    for Field {
        name,
        kind,
        nullable,
    } in schema.fields
    {
        let repetition = if *nullable { OPTIONAL } else { REQUIRED };
        if *kind == DataType::Dimensions {
            elements.push(element(&|list| {
                list.i32(3, repetition);
                list.binary(4, name.as_bytes());
                list.i32(5, 1);
                list.i32(6, 3);
                list.structure(10, |logical| logical.structure(3, |_| {}));
            }));
            elements.push(element(&|group| {
                group.i32(3, REPEATED);
                group.binary(4, b"list");
                group.i32(5, 1);
            }));
            elements.push(element(&|item| {
                item.i32(1, physical(*kind));
                item.i32(3, REQUIRED);
                item.binary(4, b"item");
            }));
            continue;
        }
        elements.push(element(&|column| {
            column.i32(1, physical(*kind));
            column.i32(3, repetition);
            column.binary(4, name.as_bytes());
            if matches!(kind, DataType::Texts | DataType::LongTexts) {
                column.i32(6, 0);
                column.structure(10, |logical| logical.structure(1, |_| {}));
            }
        }));
    }
    elements
}
