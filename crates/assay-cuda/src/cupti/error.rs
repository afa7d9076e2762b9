//! Why CUPTI cannot be used.

use crate::library::LibraryProblem;
use std::fmt;

/// Why CUPTI cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CuptiError {
    /// The CUDA driver could not be opened or asked for its version.
    Driver(String),
    /// The library could not be opened.
    Library(LibraryProblem),
    /// Its records are not known, or the driver is older.
    Version {
        /// The library.
        path: String,
        /// `cuptiGetVersion`.
        version: u32,
        /// The CUDA major it belongs to.
        major: Option<u32>,
        /// The driver's CUDA major.
        driver_major: u32,
    },
    /// A profiler is there already: Nsight, PyTorch's profiler, a debugger.
    OtherSubscriber {
        /// Its name, where CUPTI tells it.
        name: Option<String>,
    },
    /// A session of this process records already.
    Busy,
    /// A function failed.
    Call {
        /// The function.
        function: &'static str,
        /// Its status.
        status: u32,
        /// CUPTI's name of the status.
        message: String,
    },
    /// The flush thread could not be started.
    Thread(String),
}

impl CuptiError {
    /// A stable error code, for mapping to other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            CuptiError::Driver(_) => "no_driver",
            CuptiError::Library(_) => "no_cupti",
            CuptiError::Version { .. } => "cupti_version",
            CuptiError::OtherSubscriber { .. } => "other_subscriber",
            CuptiError::Busy => "cupti_busy",
            CuptiError::Call { .. } => "cupti_failed",
            CuptiError::Thread(_) => "no_thread",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CuptiError::Driver(_) => Some("install NVIDIA's driver".to_owned()),
            CuptiError::Library(_) => {
                Some("pip install \"assay[gpu]\", or set CUDA_PATH to a toolkit".to_owned())
            }
            CuptiError::Version { driver_major, .. } => Some(format!(
                "install nvidia-cuda-cupti of CUDA {driver_major}, for example with assay[gpu]"
            )),
            CuptiError::OtherSubscriber { .. } => {
                Some("end the other profiler: CUPTI serves one at a time".to_owned())
            }
            CuptiError::Busy => Some("end the other capture first".to_owned()),
            CuptiError::Call { status: 35, .. } => Some(
                "the administrator must allow profiling: NVreg_RestrictProfilingToAdminUsers=0"
                    .to_owned(),
            ),
            CuptiError::Call { .. } | CuptiError::Thread(_) => None,
        }
    }
}

impl fmt::Display for CuptiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CuptiError::Driver(problem) => {
                write!(formatter, "CUDA driver not usable: {problem}")
            }
            CuptiError::Library(problem) => write!(formatter, "CUPTI not found: {problem}"),
            CuptiError::Version { path, version, major, driver_major } => match major {
                Some(major) => write!(
                    formatter,
                    "CUPTI of CUDA 12 or 13, not later than the driver's CUDA {driver_major}, \
                     expected; got {path} of CUDA {major} (version {version})"
                ),
                None => write!(
                    formatter,
                    "CUPTI of CUDA 12 or 13 expected; got {path}, version {version}"
                ),
            },
            CuptiError::OtherSubscriber { name } => match name {
                Some(name) => write!(formatter, "CUPTI is taken by another profiler: {name}"),
                None => formatter.write_str("CUPTI is taken by another profiler"),
            },
            CuptiError::Busy => formatter.write_str("a CUPTI session records already"),
            CuptiError::Call { function, status, message } => {
                write!(formatter, "{function} failed: {message} ({status})")
            }
            CuptiError::Thread(problem) => {
                write!(formatter, "the flush thread did not start: {problem}")
            }
        }
    }
}

impl std::error::Error for CuptiError {}
