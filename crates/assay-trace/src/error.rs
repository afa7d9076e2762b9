//! Errors of traces: where, expected, got.

use assay_collections::named;
use std::fmt;
use std::path::Path;

/// The result of reading or writing a trace.
pub type Result<T> = std::result::Result<T, TraceError>;

named! {
    /// The kinds of faults, each with a stable code.
    #[non_exhaustive]
    pub enum Fault {
        /// An I/O error.
        Io = "io",
        /// The file ends before the value does.
        Truncated = "truncated",
        /// Bytes that are not JSON where JSON is due.
        Json = "json",
        /// A compressed stream that does not inflate.
        Compression = "compression",
        /// Not a trace of this format at all.
        Format = "format",
        /// A value larger or deeper than a trace may have.
        Limit = "limit",
        /// A column that is missing, unknown, too short, or of another type.
        Column = "column",
    }
}

/// A trace that cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The kind of fault.
    pub fault: Fault,
    /// The thing at fault: `byte 1024`, `column "name"`.
    pub place: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub got: String,
    /// The file, once it is known.
    pub file: Option<String>,
}

impl TraceError {
    /// An error at a place.
    pub fn new(
        fault: Fault,
        place: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        TraceError {
            fault,
            place: place.into(),
            expected: expected.into(),
            got: got.into(),
            file: None,
        }
    }

    /// An error at a byte of a file.
    pub fn at(
        fault: Fault,
        offset: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self::new(fault, format!("byte {offset}"), expected, got)
    }

    /// Nobody wants the rest.
    pub fn interrupted() -> Self {
        Self::new(Fault::Io, "", "to read to the end", "an interruption")
    }

    /// The same error of a file.
    #[must_use]
    pub fn of_file(mut self, path: &Path) -> Self {
        self.file.get_or_insert_with(|| path.display().to_string());
        self
    }

    /// A stable error code, for mapping to other languages.
    pub fn code(&self) -> &'static str {
        self.fault.name()
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(out, "{file}: ")?;
        }
        if !self.place.is_empty() {
            write!(out, "{}: ", self.place)?;
        }
        write!(out, "expected {}, got {}", self.expected, self.got)
    }
}

impl std::error::Error for TraceError {}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> Self {
        TraceError::new(Fault::Io, "", "a file to read or write", error.to_string())
    }
}
