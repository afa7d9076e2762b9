//! The cuBLASLt library, opened at first use.

use crate::discovery::discover;
use crate::library::{CublasLt, LibraryProblem, cublaslt_candidates, open_first};
use cudarc::cublaslt::sys::libraryPropertyType;
use std::sync::OnceLock;

/// The opened library.
pub(super) struct Library {
    path: String,
    version: (u32, u32),
    pub functions: CublasLt,
}

pub(super) fn library() -> std::result::Result<&'static Library, &'static LibraryProblem> {
    static LIBRARY: OnceLock<std::result::Result<Library, LibraryProblem>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            if std::env::var_os("ASSAY_CUBLASLT").is_some_and(|value| value == "0") {
                return Err(LibraryProblem::SwitchedOff { setting: "ASSAY_CUBLASLT=0" });
            }
            let driver = discover().driver.as_ref().ok();
            let opened = open_first(cublaslt_candidates(driver.map(|found| found.version.0)))?;
            let functions = CublasLt::load(&opened)?;
            let property = |which| {
                let mut value = 0;
                // SAFETY: stores one number.
                unsafe { (functions.cublasLtGetProperty)(which, &raw mut value) };
                u32::try_from(value).unwrap_or(0)
            };
            Ok(Library {
                path: opened.name,
                version: (
                    property(libraryPropertyType::MAJOR_VERSION),
                    property(libraryPropertyType::MINOR_VERSION),
                ),
                functions,
            })
        })
        .as_ref()
}

/// The path and version of cuBLASLt, or why it is unavailable.
pub fn library_info() -> std::result::Result<(String, (u32, u32)), String> {
    match library() {
        Ok(found) => Ok((found.path.clone(), found.version)),
        Err(problem) => Err(format!("cuBLASLt not available: {problem}")),
    }
}

/// Why cuBLASLt is unavailable; `None` where it is disabled on purpose.
pub(crate) fn unavailable_message() -> Option<String> {
    match library() {
        Ok(_) | Err(LibraryProblem::SwitchedOff { .. }) => None,
        Err(_) => library_info().err(),
    }
}

/// Whether cuBLASLt is available.
pub fn is_available() -> bool {
    library().is_ok()
}
