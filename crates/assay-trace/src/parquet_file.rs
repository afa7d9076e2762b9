//! Writes tables as Parquet, row group by row group.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::error::Result;
use crate::table::TraceTable;

/// Rows of a row group: what a reader takes at once, and what the writer holds.
const GROUP_ROWS: usize = 1 << 18;

/// A Parquet file that appears under its name when it is complete.
pub struct ParquetFile {
    path: PathBuf,
    staging: PathBuf,
    /// None once it is complete.
    writer: Option<ArrowWriter<File>>,
}

impl ParquetFile {
    /// Starts a file of the columns of `schema`; `metadata` are key-value pairs of its footer.
    pub fn create(path: &Path, schema: &SchemaRef, metadata: &[(&str, &str)]) -> Result<Self> {
        let staging = staging_path(path);
        let open = || -> Result<_> {
            let file = File::create(&staging)?;
            let properties = properties(schema, metadata);
            Ok(ArrowWriter::try_new(
                file,
                schema.clone(),
                Some(properties),
            )?)
        };
        Ok(ParquetFile {
            path: path.to_owned(),
            writer: Some(open().map_err(|error| error.of_file(path))?),
            staging,
        })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            let written = writer.write(batch);
            written.map_err(|error| crate::error::TraceError::from(error).of_file(&self.path))?;
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let complete = || -> Result<()> {
                writer.into_inner()?.sync_all()?;
                Ok(fs::rename(&self.staging, &self.path)?)
            };
            complete().map_err(|error| {
                // The first error is the one to report.
                let _ = fs::remove_file(&self.staging);
                error.of_file(&self.path)
            })?;
        }
        Ok(())
    }
}

impl Drop for ParquetFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
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
            file.write(batch)?;
        }
        file.finish()
    }
}

/// A hidden name beside the file, so that renaming stays on one file system.
fn staging_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

fn properties(schema: &SchemaRef, metadata: &[(&str, &str)]) -> WriterProperties {
    let pair = |&(key, value): &(&str, &str)| KeyValue::new(key.to_owned(), value.to_owned());
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(metadata.iter().map(pair).collect()))
        .set_created_by(concat!("assay ", env!("CARGO_PKG_VERSION")).to_owned());
    for field in schema.fields() {
        let column = ColumnPath::from(field.name().as_str());
        builder = match field.data_type() {
            // Times hardly ever repeat; their differences are small.
            DataType::Int64 if field.name().ends_with("_ns") => builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
            // A dictionary of texts that are mostly distinct is given up only after a megabyte.
            DataType::Utf8 => builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_statistics_enabled(column, EnabledStatistics::None),
            _ => builder,
        };
    }
    builder.build()
}
