//! Format errors: field, expected, got.

use assay_collections::named;
use std::fmt;
use std::path::Path;

/// The result of a reader.
pub type Result<T> = std::result::Result<T, FormatError>;

named! {
    /// The kinds of faults, each with a stable code.
    #[non_exhaustive]
    pub enum Fault {
        /// An I/O error.
        Io = "io",
        /// Not a file of this format at all.
        Magic = "magic",
        /// An unsupported version of the format.
        Version = "version",
        /// The file ends before the field does.
        Truncated = "truncated",
        /// More items, bytes or dimensions than the file or the format can hold.
        Count = "count",
        /// Bytes that are not UTF-8, or a name that is empty or too long.
        Text = "text",
        /// A type that is unknown or not the one that belongs there.
        Type = "type",
        /// A name that occurs twice.
        Duplicate = "duplicate",
        /// An offset or alignment that does not fit the format.
        Alignment = "alignment",
        /// A shape that overflows, is empty, or does not fill whole blocks.
        Shape = "shape",
        /// A range of bytes outside the file, or not as long as the shape says.
        Range = "range",
        /// Two tensors that share bytes.
        Overlap = "overlap",
        /// Bytes that belong to no tensor.
        Hole = "hole",
        /// A header that is not valid JSON of the expected shape.
        Json = "json",
        /// Bytes that do not have the checksum stored beside them.
        Checksum = "checksum",
    }
}

/// An invalid file, and the field at fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatError {
    /// The kind of fault.
    pub fault: Fault,
    /// The field, such as `tensor "output.weight" offset`.
    pub field: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub got: String,
    /// The file, once it is known.
    pub file: Option<String>,
}

impl FormatError {
    pub(crate) fn new(
        fault: Fault,
        field: impl fmt::Display,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        FormatError {
            fault,
            field: field.to_string(),
            expected: expected.to_string(),
            got: got.to_string(),
            file: None,
        }
    }

    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        self.file = Some(path.display().to_string());
        self
    }

    /// A stable error code.
    pub const fn code(&self) -> &'static str {
        self.fault.name()
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{file}: ")?;
        }
        write!(formatter, "{}: expected {}, got {}", self.field, self.expected, self.got)
    }
}

impl std::error::Error for FormatError {}

/// Text of a file, escaped for a message: short, on one line, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let ellipsis = if end < text.len() { "..." } else { "" };
    format!("{:?}{ellipsis}", &text[..end])
}
