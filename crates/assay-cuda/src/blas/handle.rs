//! The cuBLASLt handle of a device, with its cache of plans.

use super::library::library;
use super::plan::Plan;
use super::problem::{GemmPointers, GemmProblem};
use super::status::refused;
use crate::library::CublasLt;
use assay_runtime::backend::{DevicePointer, Result};
use cudarc::cublaslt::sys::cublasLtHandle_t;
use cudarc::driver::sys::CUstream;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// cuBLASLt for one device. The caller has made the device's context current.
pub(crate) struct BlasHandle {
    functions: &'static CublasLt,
    handle: cublasLtHandle_t,
    /// Plans by problem; unsupported problems with the library's error.
    plans: Mutex<HashMap<GemmProblem, std::result::Result<Arc<Plan>, String>>>,
}

// SAFETY: the handle may be used from several threads at once.
unsafe impl Send for BlasHandle {}
// SAFETY: as above.
unsafe impl Sync for BlasHandle {}

impl BlasHandle {
    pub fn new() -> Result<Self> {
        let found =
            library().map_err(|problem| refused(format!("cuBLASLt not available: {problem}")))?;
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle.
        let status = unsafe { (found.functions.cublasLtCreate)(&raw mut handle) };
        match status {
            0 => Ok(BlasHandle { functions: &found.functions, handle, plans: Mutex::default() }),
            status => Err(refused(format!("cuBLASLt did not start: status {status}"))),
        }
    }

    /// Queues a GEMM on a stream; each stream has its own workspace.
    pub fn gemm(
        &self,
        problem: &GemmProblem,
        pointers: &GemmPointers,
        workspace: DevicePointer,
        stream: CUstream,
    ) -> Result<()> {
        let plan = self.plan(problem, pointers)?;
        plan.run(self.handle, pointers, workspace, stream)
    }

    /// Whether the library supports this problem.
    pub fn supports_gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> bool {
        self.plan(problem, pointers).is_ok()
    }

    fn plan(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<Arc<Plan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(*problem).or_insert_with(|| {
            let plan = Plan::new(self.functions, self.handle, problem, pointers.scales);
            plan.map(Arc::new).map_err(|error| error.to_string())
        });
        plan.clone().map_err(refused)
    }
}

impl Drop for BlasHandle {
    fn drop(&mut self) {
        self.plans.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // SAFETY: no plan is left.
        let _ = unsafe { (self.functions.cublasLtDestroy)(self.handle) };
    }
}
