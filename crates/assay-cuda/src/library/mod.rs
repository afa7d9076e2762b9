//! Dynamic loading of the driver, NVRTC and cuBLASLt; all symbols are resolved when a library is
//! opened.
//!
//! cudarc provides types and signatures. Its loader is not used: it panics when a library or a symbol
//! is missing, finds libraries by name instead of by path, and returns status codes as Rust enums,
//! for which a newer driver's codes would be undefined behavior.

mod cublaslt;
mod driver;
mod folders;
mod nvrtc;

pub(crate) use cublaslt::CublasLt;
pub(crate) use driver::{Driver, NO_DEVICE, NOT_READY, OUT_OF_MEMORY, SUCCESS, is_fault};
pub use folders::set_library_folders;
pub(crate) use folders::{
    cublaslt_candidates, cupti_candidates, loaded_library, nvrtc_builtins, nvrtc_candidates,
    usable_libraries,
};
pub(crate) use nvrtc::Nvrtc;

use libloading::Library;
use std::ffi::OsStr;
use std::fmt;

/// Why a library cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryProblem {
    /// No file of that name could be opened.
    NotFound {
        /// The paths tried, in order.
        tried: Vec<String>,
    },
    /// Disabled by an environment variable.
    SwitchedOff {
        /// The setting.
        setting: &'static str,
    },
    /// The library lacks a required symbol.
    TooOld {
        /// The library.
        library: String,
        /// The symbol.
        symbol: &'static str,
    },
}

impl fmt::Display for LibraryProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryProblem::NotFound { tried } => {
                write!(formatter, "looked for {}", tried.join(", "))
            }
            LibraryProblem::SwitchedOff { setting } => {
                write!(formatter, "switched off by {setting}")
            }
            LibraryProblem::TooOld { library, symbol } => {
                write!(formatter, "{library} is too old: it lacks {symbol}")
            }
        }
    }
}

/// A library that stays open until the process exits, and the name it was opened under.
pub(crate) struct Opened {
    pub library: &'static Library,
    pub name: String,
}

/// Opens the first of the candidates that can be opened.
pub(crate) fn open_first<S: AsRef<OsStr>>(
    candidates: impl IntoIterator<Item = S>,
) -> Result<Opened, LibraryProblem> {
    let mut tried = Vec::new();
    for candidate in candidates {
        let name = candidate.as_ref().to_string_lossy().into_owned();
        // SAFETY: these are NVIDIA's libraries, whose initializers only set up their own state;
        // they are never closed, so no pointer into them dangles.
        match unsafe { Library::new(candidate.as_ref()) } {
            Ok(library) => {
                return Ok(Opened { library: Box::leak(Box::new(library)), name });
            }
            Err(_) => tried.push(name),
        }
    }
    Err(LibraryProblem::NotFound { tried })
}

/// Declares a table of functions of one library.
///
/// Each signature is checked against cudarc's at compile time. Functions return the raw status.
macro_rules! functions {
    (
        $(#[$attribute:meta])*
        $table:ident in $($module:ident)::+, status $status:ident {
            $( $name:ident $(as $binding:ident)? ( $($argument:ty),* $(,)? ); )*
        }
    ) => {
        $(#[$attribute])*
        #[allow(non_snake_case)]
        pub(crate) struct $table {
            $( pub $name: unsafe extern "C" fn($($argument),*) -> u32, )*
        }

        const _: () = {
            use $($module)::+ as bindings;
            $(
                const _: unsafe fn($($argument),*) -> bindings::$status =
                    functions!(@binding bindings, $name $(, $binding)?);
            )*
        };

        impl $table {
            /// Resolves every symbol.
            pub fn load(opened: &$crate::library::Opened)
                -> Result<Self, $crate::library::LibraryProblem> {
                Ok($table {
                    $(
                        // SAFETY: the signature is the one that cudarc generated from NVIDIA's
                        // header, except for the status, an unsigned integer in C.
                        $name: unsafe {
                            match opened.library.get(concat!(stringify!($name), "\0").as_bytes()) {
                                Ok(found) => *found,
                                Err(_) => {
                                    return Err($crate::library::LibraryProblem::TooOld {
                                        library: opened.name.clone(),
                                        symbol: stringify!($name),
                                    });
                                }
                            }
                        },
                    )*
                })
            }
        }
    };
    (@binding $module:ident, $name:ident) => { $module::$name };
    (@binding $module:ident, $name:ident, $binding:ident) => { $module::$binding };
}
pub(crate) use functions;
