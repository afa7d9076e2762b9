//! Why source did not become machine code.

use super::diagnostics::Diagnostic;
use crate::discovery::CudaUnavailable;
use std::fmt;

/// Why source did not become machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompileError {
    /// There is no compiler.
    NoCompiler(CudaUnavailable),
    /// The source has errors.
    Source {
        /// What was compiled.
        name: String,
        /// What the compiler said, errors first.
        diagnostics: Vec<Diagnostic>,
    },
    /// The compiler does not take the options.
    Options {
        /// What was compiled.
        name: String,
        /// What the compiler said.
        message: String,
    },
    /// The source holds a zero byte, which would end it.
    ZeroByte {
        /// What was to be compiled.
        name: String,
    },
    /// The compiler failed without a word.
    Refused {
        /// What was compiled.
        name: String,
        /// NVRTC's number for it.
        status: u32,
    },
}

impl CompileError {
    /// A stable name, for mapping it in other languages.
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
            CompileError::Options { name, message } => write!(
                f,
                "{name}: expected options that NVRTC knows, got its refusal: {message}"
            ),
            CompileError::ZeroByte { name } => write!(
                f,
                "{name}: expected text without zero bytes, got one with a zero byte"
            ),
            CompileError::Refused { name, status } => write!(
                f,
                "{name}: expected machine code, got NVRTC's error {status}\nhint: NVRTC's library \
                 of built-in functions may be missing beside it"
            ),
        }
    }
}

impl std::error::Error for CompileError {}
