//! Large matrix products through cuBLASLt.
//!
//! Descriptors are made and the heuristic is asked once for each kind of product; after that a
//! product is one call. The library is opened when the first product asks for it.

mod layout;
mod plan;
mod product;

pub use product::{Element, Epilogue, Matrix, Product};

use crate::library::{CublasLt, LibraryProblem, cublaslt_candidates, open_first};
use crate::probe::probe;
use assay_runtime::backend::{BackendError, DevicePointer, Operation, Result};
use cudarc::cublaslt::sys::{cublasLtHandle_t, libraryPropertyType};
use cudarc::driver::sys::CUstream;
use plan::Plan;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What Hopper's products may use; older devices' need less.
pub(crate) const WORKSPACE_BYTES: u64 = 32 << 20;

struct Found {
    path: String,
    version: (u32, u32),
    functions: CublasLt,
}

fn library() -> std::result::Result<&'static Found, &'static LibraryProblem> {
    static FOUND: OnceLock<std::result::Result<Found, LibraryProblem>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            if std::env::var_os("ASSAY_CUBLASLT").is_some_and(|value| value == "0") {
                return Err(LibraryProblem::SwitchedOff {
                    setting: "ASSAY_CUBLASLT=0",
                });
            }
            let driver = probe().driver.as_ref().ok();
            let opened = open_first(cublaslt_candidates(driver.map(|found| found.version.0)))?;
            let functions = CublasLt::load(&opened)?;
            let property = |which| {
                let mut value = 0;
                // SAFETY: stores one number.
                unsafe { (functions.cublasLtGetProperty)(which, &raw mut value) };
                u32::try_from(value).unwrap_or(0)
            };
            Ok(Found {
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

/// Where cuBLASLt is and its version, or why it is not used.
pub fn finding() -> std::result::Result<(String, (u32, u32)), String> {
    match library() {
        Ok(found) => Ok((found.path.clone(), found.version)),
        Err(problem) => Err(format!("cuBLASLt not available: {problem}")),
    }
}

/// What to say of there being no cuBLASLt; nothing where it was switched off.
pub(crate) fn absence() -> Option<String> {
    match library() {
        Ok(_) | Err(LibraryProblem::SwitchedOff { .. }) => None,
        Err(_) => finding().err(),
    }
}

/// Whether there is a cuBLASLt.
pub fn is_available() -> bool {
    library().is_ok()
}

/// cuBLASLt for one device. Its context is current in whoever calls.
pub(crate) struct Blas {
    functions: &'static CublasLt,
    handle: cublasLtHandle_t,
    /// Those that the library has no way for are here too, with what it said.
    plans: Mutex<HashMap<Product, std::result::Result<Arc<Plan>, String>>>,
}

// SAFETY: the handle may be used from several threads at once.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

fn check(what: &str, status: u32) -> Result<()> {
    match status {
        0 => Ok(()),
        status => Err(refused(format!("cuBLASLt refused {what}: status {status}"))),
    }
}

pub(crate) fn refused(message: String) -> BackendError {
    BackendError::Driver {
        operation: Operation::Launch,
        message,
    }
}

/// Where the matrices of a product are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The left matrix.
    pub a: DevicePointer,
    /// The right matrix.
    pub b: DevicePointer,
    /// What is added, of the result's layout; may be the result.
    pub added: Option<DevicePointer>,
    /// One number for each column of the result.
    pub bias: Option<DevicePointer>,
    /// Scales of the two matrices, in device memory; for 8-bit floats.
    pub scales: Option<(DevicePointer, DevicePointer)>,
    /// The result.
    pub out: DevicePointer,
}

impl Blas {
    pub fn new() -> Result<Self> {
        let found =
            library().map_err(|problem| refused(format!("cuBLASLt not available: {problem}")))?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle.
        let status = unsafe { (found.functions.cublasLtCreate)(&raw mut handle) };
        match status {
            0 => Ok(Blas {
                functions: &found.functions,
                handle,
                plans: Mutex::default(),
            }),
            status => Err(refused(format!("cuBLASLt did not start: status {status}"))),
        }
    }

    /// Queues a product on a stream; the workspace is the stream's own.
    pub fn multiply(
        &self,
        product: &Product,
        places: &Places,
        workspace: DevicePointer,
        stream: CUstream,
    ) -> Result<()> {
        let plan = self.plan(product, places)?;
        plan.run(self.handle, places, workspace, stream)
    }

    /// Whether the library has a way to do this product.
    pub fn can_multiply(&self, product: &Product, places: &Places) -> bool {
        self.plan(product, places).is_ok()
    }

    fn plan(&self, product: &Product, places: &Places) -> Result<Arc<Plan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(*product).or_insert_with(|| {
            let made = Plan::new(self.functions, self.handle, product, places.scales);
            made.map(Arc::new).map_err(|error| error.to_string())
        });
        plan.clone().map_err(refused)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        // SAFETY: nothing uses it any more.
        let _ = unsafe { (self.functions.cublasLtDestroy)(self.handle) };
    }
}
