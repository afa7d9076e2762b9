//! Compilation errors.

use super::diagnostics::Diagnostic;
use crate::discovery::CudaUnavailable;
use std::fmt;

/// Why compilation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompileError {
    /// NVRTC is unavailable.
    NoCompiler(CudaUnavailable),
    /// The source has errors.
    Source {
        /// The name of the source.
        name: String,
        /// The diagnostics, errors first.
        diagnostics: Vec<Diagnostic>,
    },
    /// NVRTC rejects the options.
    Options {
        /// The name of the source.
        name: String,
        /// NVRTC's message.
        message: String,
    },
    /// The source contains a zero byte.
    ZeroByte {
        /// The name of the source.
        name: String,
    },
    /// NVRTC failed without a message.
    Refused {
        /// The name of the source.
        name: String,
        /// NVRTC's status.
        status: u32,
    },
}

impl CompileError {
    /// A stable error code, for mapping to other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            CompileError::NoCompiler(missing) => missing.code(),
            CompileError::Source { .. } => "compile",
            CompileError::Options { .. } => "compile_options",
            CompileError::ZeroByte { .. } => "zero_byte",
            CompileError::Refused { .. } => "compiler_failed",
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::NoCompiler(missing) => missing.fmt(f),
            CompileError::Source { name, diagnostics } => {
                let errors = diagnostics.iter().filter(|one| one.is_error).count();
                match diagnostics.first() {
                    Some(first) => write!(f, "{first}")?,
                    None => write!(f, "{name}: the compiler refused it without a message")?,
                }
                match errors {
                    0 | 1 => Ok(()),
                    more => write!(f, "\nhint: {more} errors in all; this is the first"),
                }
            }
            CompileError::Options { name, message } => {
                write!(f, "{name}: expected options that NVRTC knows, got its refusal: {message}")
            }
            CompileError::ZeroByte { name } => {
                write!(f, "{name}: expected text without zero bytes, got one with a zero byte")
            }
            CompileError::Refused { name, status } => write!(
                f,
                "{name}: expected machine code, got NVRTC's error {status}\nhint: NVRTC's library \
                 of built-in functions may be missing beside it"
            ),
        }
    }
}

impl std::error::Error for CompileError {}
