//! CUPTI, NVIDIA's profiling interface: what ran on the devices of this process, as events.
//!
//! Nothing is loaded and no place of a subscriber is taken until a [`Session`] starts. CUPTI fills
//! buffers of records; a flush thread has part-filled ones delivered, decodes them and hands the
//! events to a [`Sink`].

mod api;
mod buffers;
mod clock;
mod decode;
mod error;
mod names;
mod nvtx;
mod records;
mod session;

pub use clock::CLOCK;
pub use decode::{Counts, quoted};
pub use error::CuptiError;
pub use nvtx::add_nvtx_client;
pub use session::{Activity, Options, Progress, Session, Sink};

use crate::library::open_first;
use std::ffi::c_int;

/// The CUDA major of the driver; the driver need not be initialized.
fn driver_major() -> Result<u32, CuptiError> {
    let opened = open_first(["libcuda.so.1", "libcuda.so"])
        .map_err(|problem| CuptiError::Driver(problem.to_string()))?;
    let mut version: c_int = 0;
    // SAFETY: the driver stores one number; it needs no initialization.
    let status = unsafe {
        match opened.library.get::<unsafe extern "C" fn(*mut c_int) -> u32>(b"cuDriverGetVersion\0")
        {
            Ok(get) => get(&raw mut version),
            Err(error) => return Err(CuptiError::Driver(error.to_string())),
        }
    };
    match u32::try_from(version / 1000) {
        Ok(major) if status == 0 && major > 0 => Ok(major),
        _ => Err(CuptiError::Driver(format!("cuDriverGetVersion: status {status}"))),
    }
}
