//! The primary context of a device, through which every driver call goes.

use crate::library::{Driver, SUCCESS, is_fault};
use assay_runtime::backend::{BackendError, Operation, Result, StreamId};
use cudarc::driver::sys::{CUcontext, CUdevice};
use std::ptr;
use std::sync::OnceLock;

/// A device's primary context, shared with other users of CUDA in the process.
pub(crate) struct PrimaryContext {
    pub driver: &'static Driver,
    device: CUdevice,
    context: CUcontext,
    /// The device fault, after which every call fails.
    fault: OnceLock<String>,
}

// SAFETY: a context may be used from any thread that makes it current, which `enter` does, and the
// driver is thread-safe.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above.
unsafe impl Sync for PrimaryContext {}

/// The stream of a call and the last kernel queued on it, for the message of a fault.
#[derive(Clone, Copy)]
pub(crate) struct FaultSite<'a> {
    pub stream: StreamId,
    pub kernel: Option<&'a str>,
}

impl PrimaryContext {
    /// Retains the device's primary context.
    pub fn new(driver: &'static Driver, ordinal: usize) -> std::result::Result<Self, String> {
        let mut device = 0;
        let mut context = ptr::null_mut();
        // SAFETY: each call stores one handle; the first takes no more than a number.
        let status = unsafe {
            match (driver.cuDeviceGet)(&raw mut device, i32::try_from(ordinal).unwrap_or(-1)) {
                SUCCESS => (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device),
                refused => refused,
            }
        };
        if status != SUCCESS {
            return Err(driver.describe(status));
        }
        Ok(PrimaryContext { driver, device, context, fault: OnceLock::new() })
    }

    /// Makes the context current in this thread; another library may have set its own.
    pub fn enter(&self, operation: Operation) -> Result<&'static Driver> {
        if let Some(fault) = self.fault.get() {
            return Err(faulted(operation, fault));
        }
        // SAFETY: the context lives as long as this value.
        self.check(operation, unsafe { (self.driver.cuCtxSetCurrent)(self.context) })?;
        Ok(self.driver)
    }

    /// Whether the context is lost to a fault.
    pub fn is_lost(&self) -> bool {
        self.fault.get().is_some()
    }

    /// The error for a status of the driver.
    pub fn check(&self, operation: Operation, status: u32) -> Result<()> {
        match status {
            SUCCESS => Ok(()),
            status => Err(self.error(operation, status, None)),
        }
    }

    /// As [`PrimaryContext::check`], for a call on a stream.
    pub fn check_on(&self, operation: Operation, status: u32, site: FaultSite<'_>) -> Result<()> {
        match status {
            SUCCESS => Ok(()),
            status => Err(self.error(operation, status, Some(site))),
        }
    }

    fn error(
        &self,
        operation: Operation,
        status: u32,
        site: Option<FaultSite<'_>>,
    ) -> BackendError {
        let mut message = self.driver.describe(status);
        if !is_fault(status) {
            return BackendError::Driver { operation, message };
        }
        if let Some(FaultSite { stream, kernel }) = site {
            message.push_str(&match kernel {
                Some(kernel) => format!(" at or before kernel {kernel} of stream {}", stream.0),
                None => format!(" on stream {}", stream.0),
            });
        }
        faulted(operation, self.fault.get_or_init(|| message))
    }
}

fn faulted(operation: Operation, fault: &str) -> BackendError {
    BackendError::DeviceFault { operation, message: fault.to_owned() }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained once by `new`. At process exit the driver may be gone already and returns an
        // error, which is harmless.
        let _ = unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}
