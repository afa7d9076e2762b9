//! The cuBLASLt handle of a device, with its cache of plans.

use super::library::library;
use super::plan::Plan;
use super::problem::{GemmPointers, GemmProblem};
use super::status::refused;
use crate::library::CublasLt;
use assay_runtime::backend::{DevicePointer, Result};
use cudarc::cublaslt::sys::cublasLtHandle_t;
use cudarc::driver::sys::CUstream;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Algorithms that are timed where a plan is tuned.
const TUNED_CANDIDATES: usize = 8;
const TUNING_ROUNDS: u32 = 3;
/// How much faster than the heuristic's choice an algorithm has to be: less is within the noise, and
/// would differ from start to start.
const WORTHWHILE: f64 = 0.99;

type Plans = HashMap<GemmProblem, std::result::Result<Arc<Plan>, String>>;

/// cuBLASLt for one device. The caller has made the device's context current.
pub(crate) struct BlasHandle {
    functions: &'static CublasLt,
    handle: cublasLtHandle_t,
    /// Plans by problem; unsupported problems with the library's error.
    plans: Mutex<Plans>,
    /// Problems whose algorithm was chosen by time.
    tuned: Mutex<HashSet<GemmProblem>>,
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
            0 => Ok(BlasHandle {
                functions: &found.functions,
                handle,
                plans: Mutex::default(),
                tuned: Mutex::default(),
            }),
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

    /// Whether the algorithm of this problem was chosen by time.
    pub fn is_tuned(&self, problem: &GemmProblem) -> bool {
        self.tuned.lock().unwrap_or_else(PoisonError::into_inner).contains(problem)
    }

    /// Times the algorithms of a problem and keeps the fastest.
    ///
    /// `time_ns` gets a function that queues the GEMM, and returns how long it took.
    pub fn tune(
        &self,
        problem: &GemmProblem,
        pointers: &GemmPointers,
        workspace: DevicePointer,
        stream: CUstream,
        mut time_ns: impl FnMut(&dyn Fn() -> Result<()>) -> Result<u64>,
    ) -> Result<()> {
        let mut plan =
            Plan::new(self.functions, self.handle, problem, pointers.scales, TUNED_CANDIDATES)?;
        // In rounds: clocks fall as the device warms up, and must not favor those timed first. The library may
        // refuse what its heuristic proposed.
        let mut totals_ns = vec![Some(0u64); plan.candidates()];
        for _ in 0..TUNING_ROUNDS {
            for (index, total_ns) in totals_ns.iter_mut().enumerate() {
                let run = || plan.run_algorithm(index, self.handle, pointers, workspace, stream);
                *total_ns = total_ns.and_then(|total| Some(total + time_ns(&run).ok()?));
            }
        }
        // Index 0 is the heuristic's choice.
        let worthwhile_ns =
            totals_ns[0].map_or(u64::MAX, |total| (total as f64 * WORTHWHILE) as u64);
        let fastest =
            (0..totals_ns.len()).filter_map(|index| Some((totals_ns[index]?, index))).min();
        let better = fastest.filter(|&(total_ns, _)| total_ns < worthwhile_ns);
        plan.choose(better.map_or(0, |(_, index)| index));
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.insert(*problem, Ok(Arc::new(plan)));
        self.tuned.lock().unwrap_or_else(PoisonError::into_inner).insert(*problem);
        Ok(())
    }

    /// Whether the library supports this problem.
    pub fn supports_gemm(&self, problem: &GemmProblem, pointers: &GemmPointers) -> bool {
        self.plan(problem, pointers).is_ok()
    }

    fn plan(&self, problem: &GemmProblem, pointers: &GemmPointers) -> Result<Arc<Plan>> {
        let like = match problem.algorithm_rows {
            Some(rows) if rows != problem.rows => {
                Some(self.plan(&GemmProblem { rows, ..*problem }, pointers)?)
            }
            _ => None,
        };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plans.entry(*problem).or_insert_with(|| {
            let plan = match like {
                Some(like) => Plan::like(&like, problem, pointers.scales),
                None => Plan::new(self.functions, self.handle, problem, pointers.scales, 1),
            };
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
