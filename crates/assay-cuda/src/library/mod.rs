//! Shared libraries opened at run time, with every function looked up when the library is opened.
//!
//! cudarc gives the types and the signatures; its own look-up is not used, because it panics when
//! a library or a function is missing, picks a library by name rather than by place, and returns
//! status codes as Rust enums, which a newer driver may step outside of.

mod cublaslt;
mod driver;
mod folders;
mod nvrtc;

pub(crate) use cublaslt::CublasLt;
pub(crate) use driver::{Driver, NO_DEVICE, NOT_READY, OUT_OF_MEMORY, SUCCESS, is_fault};
pub use folders::set_library_folders;
pub(crate) use folders::{cublaslt_candidates, nvrtc_builtins, nvrtc_candidates};
pub(crate) use nvrtc::Nvrtc;

use libloading::Library;
use std::ffi::OsStr;
use std::fmt;

/// Why a library cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryProblem {
    /// No file of that name could be opened.
    NotFound {
        /// The places looked at, in order.
        tried: Vec<String>,
    },
    /// Nobody looked: an environment variable says so.
    SwitchedOff {
        /// What it says.
        setting: &'static str,
    },
    /// The library lacks a function that is needed.
    TooOld {
        /// The library.
        library: String,
        /// The function.
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

/// A library that stays open to the end of the process, and the name it was opened under.
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
        // they are never closed, so nothing that they hand out dangles.
        match unsafe { Library::new(candidate.as_ref()) } {
            Ok(library) => {
                return Ok(Opened {
                    library: Box::leak(Box::new(library)),
                    name,
                });
            }
            Err(_) => tried.push(name),
        }
    }
    Err(LibraryProblem::NotFound { tried })
}

/// Declares a table of functions of one library.
///
/// Each signature is checked against cudarc's when this compiles. The status comes back as the
/// number that it is.
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
            /// Looks every function up.
            pub fn load(opened: &$crate::library::Opened)
                -> Result<Self, $crate::library::LibraryProblem> {
                Ok($table {
                    $(
                        // SAFETY: the signature is the one that cudarc generated from NVIDIA's
                        // header, but for the status, an unsigned number in C.
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
