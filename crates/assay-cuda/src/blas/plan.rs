//! A plan: the descriptors of a GEMM problem, and its algorithm: the heuristic's first, or the fastest.
//!
//! Matrices are row-major and cuBLASLt is column-major: the row-major product a b is the column-major
//! product of the transposed operands in reverse order, so b is passed first.

use super::layout::MatrixLayout;
use super::problem::{Element, Epilogue, GemmPointers, GemmProblem};
use super::status::{check, refused};
use crate::library::CublasLt;
use assay_runtime::backend::{DevicePointer, Result};
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtEpilogue_t as LtEpilogue, cublasLtHandle_t,
    cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as Describe,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulMatrixScale_t as ScaleMode,
    cublasLtMatmulPreferenceAttributes_t as Prefer, cudaDataType as Data,
};
use cudarc::driver::sys::CUstream;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;

/// Workspace that kernels for Hopper may use; older devices need less.
pub(crate) const WORKSPACE_BYTES: u64 = 32 << 20;
/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
const OP_N: u32 = 0;
const OP_T: u32 = 1;

pub(super) struct Plan {
    functions: &'static CublasLt,
    /// Holds the bias and scale pointers of a call, so only one call at a time.
    description: Mutex<cublasLtMatmulDesc_t>,
    a: MatrixLayout,
    b: MatrixLayout,
    out: MatrixLayout,
    /// The best first, as the heuristic guesses.
    algorithms: Vec<cublasLtMatmulAlgo_t>,
    /// Index of the one that runs.
    chosen: usize,
    has_bias: bool,
}

// SAFETY: descriptors are plain memory; the one that is changed is under a lock.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

fn describe<T>(
    functions: &CublasLt,
    description: cublasLtMatmulDesc_t,
    attribute: Describe,
    value: &T,
) -> Result<()> {
    // SAFETY: copies as many bytes as the value has.
    check("a description", unsafe {
        (functions.cublasLtMatmulDescSetAttribute)(
            description,
            attribute,
            ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    })
}

/// Sets the scale pointers of a and b.
fn set_scales(
    functions: &CublasLt,
    description: cublasLtMatmulDesc_t,
    (a, b): (DevicePointer, DevicePointer),
) -> Result<()> {
    let set =
        |attribute, pointer: DevicePointer| describe(functions, description, attribute, &pointer.0);
    set(Describe::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b)?;
    set(Describe::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a)
}

impl Plan {
    pub fn new(
        functions: &'static CublasLt,
        handle: cublasLtHandle_t,
        problem: &GemmProblem,
        scales: Option<(DevicePointer, DevicePointer)>,
        candidates: usize,
    ) -> Result<Self> {
        let mut plan = Self::without_algorithm(functions, problem, scales)?;
        plan.algorithms = plan.find_algorithms(handle, problem, candidates)?;
        Ok(plan)
    }

    /// A plan that runs the algorithm of another one.
    pub fn like(
        other: &Plan,
        problem: &GemmProblem,
        scales: Option<(DevicePointer, DevicePointer)>,
    ) -> Result<Self> {
        let mut plan = Self::without_algorithm(other.functions, problem, scales)?;
        plan.algorithms.extend(other.algorithms.get(other.chosen));
        Ok(plan)
    }

    fn without_algorithm(
        functions: &'static CublasLt,
        problem: &GemmProblem,
        scales: Option<(DevicePointer, DevicePointer)>,
    ) -> Result<Self> {
        let compute = match (problem.a.element, problem.tf32) {
            (Element::F32, true) => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => Compute::CUBLAS_COMPUTE_32F,
        };
        let GemmProblem { batch, rows, columns, inner, .. } = *problem;
        let extents = |transposed, rows, columns| match transposed {
            true => (columns, rows),
            false => (rows, columns),
        };
        let a_extents = extents(problem.a.transposed, rows, inner);
        let b_extents = extents(problem.b.transposed, inner, columns);
        let a = MatrixLayout::new(functions, &problem.a, a_extents.0, a_extents.1, batch)?;
        let b = MatrixLayout::new(functions, &problem.b, b_extents.0, b_extents.1, batch)?;
        let out = MatrixLayout::new(functions, &problem.out, rows, columns, batch)?;
        let mut description = ptr::null_mut();
        // SAFETY: stores one handle, which the plan destroys at its end.
        check("a description", unsafe {
            (functions.cublasLtMatmulDescCreate)(&raw mut description, compute, Data::CUDA_R_32F)
        })?;
        let plan = Plan {
            functions,
            description: Mutex::new(description),
            a,
            b,
            out,
            algorithms: Vec::new(),
            chosen: 0,
            has_bias: problem.bias.is_some(),
        };
        let op = |transposed| match transposed {
            true => OP_T,
            false => OP_N,
        };
        let set = |attribute, value: &u32| describe(functions, description, attribute, value);
        set(Describe::CUBLASLT_MATMUL_DESC_TRANSA, &op(problem.b.transposed))?;
        set(Describe::CUBLASLT_MATMUL_DESC_TRANSB, &op(problem.a.transposed))?;
        let epilogue = match (problem.epilogue, problem.bias.is_some()) {
            (Epilogue::None, false) => LtEpilogue::CUBLASLT_EPILOGUE_DEFAULT,
            (Epilogue::None, true) => LtEpilogue::CUBLASLT_EPILOGUE_BIAS,
            (Epilogue::Relu, false) => LtEpilogue::CUBLASLT_EPILOGUE_RELU,
            (Epilogue::Relu, true) => LtEpilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
            (Epilogue::GeluTanh, false) => LtEpilogue::CUBLASLT_EPILOGUE_GELU,
            (Epilogue::GeluTanh, true) => LtEpilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        set(Describe::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
        if let Some(element) = problem.bias {
            set(Describe::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &(element.data() as u32))?;
        }
        if problem.fast_accumulation {
            describe(functions, description, Describe::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1i8)?;
        }
        if problem.row_scales {
            let mode = ScaleMode::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F as u32;
            set(Describe::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode)?;
            set(Describe::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode)?;
        }
        if let Some(scales) = scales {
            // The heuristic needs scale pointers for per-row scaling.
            set_scales(functions, description, scales)?;
        }
        Ok(plan)
    }

    /// How many algorithms there are to choose from.
    pub fn candidates(&self) -> usize {
        self.algorithms.len()
    }

    /// Lets later calls run another algorithm.
    pub fn choose(&mut self, index: usize) {
        self.chosen = index.min(self.algorithms.len().saturating_sub(1));
    }

    fn find_algorithms(
        &self,
        handle: cublasLtHandle_t,
        problem: &GemmProblem,
        candidates: usize,
    ) -> Result<Vec<cublasLtMatmulAlgo_t>> {
        let functions = self.functions;
        let description =
            *self.description.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut preference = ptr::null_mut();
        // SAFETY: stores one handle.
        check("a preference", unsafe {
            (functions.cublasLtMatmulPreferenceCreate)(&raw mut preference)
        })?;
        let prefer = |attribute, value: *const c_void, bytes| {
            // SAFETY: copies `bytes` bytes.
            check("a preference", unsafe {
                (functions.cublasLtMatmulPreferenceSetAttribute)(
                    preference, attribute, value, bytes,
                )
            })
        };
        let alignments = [
            (Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.b.alignment),
            (Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.a.alignment),
            (Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.out.alignment),
            (Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.out.alignment),
        ];
        let workspace = WORKSPACE_BYTES;
        let mut set = prefer(
            Prefer::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (&raw const workspace).cast(),
            size_of::<u64>(),
        );
        for (attribute, bytes) in &alignments {
            set = set.and_then(|()| prefer(*attribute, ptr::from_ref(bytes).cast(), 4));
        }
        // SAFETY: plain numbers, for which zero is valid.
        let blank: cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut results = vec![blank; candidates];
        let mut count = 0;
        let chosen = set.and_then(|()| {
            // SAFETY: all handles are valid; stores at most as many results as there is room for, and
            // the count.
            check("every algorithm", unsafe {
                (functions.cublasLtMatmulAlgoGetHeuristic)(
                    handle,
                    description,
                    self.b.handle,
                    self.a.handle,
                    self.out.handle,
                    self.out.handle,
                    preference,
                    candidates as i32,
                    results.as_mut_ptr(),
                    &raw mut count,
                )
            })
        });
        // SAFETY: created above and not shared.
        let _ = unsafe { (functions.cublasLtMatmulPreferenceDestroy)(preference) };
        chosen?;
        let found = results.iter().take(usize::try_from(count).unwrap_or(0));
        let algorithms: Vec<_> = found.map(|result| result.algo).collect();
        match algorithms.is_empty() {
            true => Err(refused(format!("cuBLASLt has no algorithm for {problem:?}"))),
            false => Ok(algorithms),
        }
    }

    pub fn run(
        &self,
        handle: cublasLtHandle_t,
        pointers: &GemmPointers,
        workspace: DevicePointer,
        stream: CUstream,
    ) -> Result<()> {
        self.run_algorithm(self.chosen, handle, pointers, workspace, stream)
    }

    /// Runs one of the candidates.
    pub fn run_algorithm(
        &self,
        index: usize,
        handle: cublasLtHandle_t,
        pointers: &GemmPointers,
        workspace: DevicePointer,
        stream: CUstream,
    ) -> Result<()> {
        let functions = self.functions;
        let description = self.description.lock();
        let description = description.unwrap_or_else(std::sync::PoisonError::into_inner);
        let set = |attribute, pointer: DevicePointer| {
            describe(functions, *description, attribute, &pointer.0)
        };
        if let (true, Some(bias)) = (self.has_bias, pointers.bias) {
            set(Describe::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        }
        if let Some(scales) = pointers.scales {
            set_scales(functions, *description, scales)?;
        }
        let (one, beta) = (1.0f32, if pointers.c.is_some() { 1.0f32 } else { 0.0 });
        let at = |pointer: DevicePointer| pointer.0 as *const c_void;
        let c = pointers.c.unwrap_or(pointers.out);
        // SAFETY: handle, descriptors and stream are valid; the caller guarantees the matrices, as with
        // any launch.
        check("a problem", unsafe {
            (functions.cublasLtMatmul)(
                handle,
                *description,
                (&raw const one).cast(),
                at(pointers.b),
                self.b.handle,
                at(pointers.a),
                self.a.handle,
                (&raw const beta).cast(),
                at(c),
                self.out.handle,
                pointers.out.0 as *mut c_void,
                self.out.handle,
                &raw const self.algorithms[index],
                workspace.0 as *mut c_void,
                WORKSPACE_BYTES as usize,
                stream.cast(),
            )
        })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let description =
            *self.description.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: created by `new` and owned by this value.
        let _ = unsafe { (self.functions.cublasLtMatmulDescDestroy)(description) };
    }
}
