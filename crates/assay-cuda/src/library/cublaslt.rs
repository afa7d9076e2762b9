//! The functions of cuBLASLt that are used.

use super::functions;
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
    cudaDataType, cudaStream_t, libraryPropertyType,
};
use std::ffi::{c_int, c_void};

functions! {
    /// NVIDIA's matrix products, `libcublasLt`.
    CublasLt in cudarc::cublaslt::sys, status cublasStatus_t {
        cublasLtGetProperty(libraryPropertyType, *mut c_int);
        cublasLtCreate(*mut cublasLtHandle_t);
        cublasLtDestroy(cublasLtHandle_t);
        cublasLtMatmulDescCreate(*mut cublasLtMatmulDesc_t, cublasComputeType_t, cudaDataType);
        cublasLtMatmulDescSetAttribute(
            cublasLtMatmulDesc_t,
            cublasLtMatmulDescAttributes_t,
            *const c_void,
            usize,
        );
        cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t);
        cublasLtMatrixLayoutCreate(*mut cublasLtMatrixLayout_t, cudaDataType, u64, u64, i64);
        cublasLtMatrixLayoutSetAttribute(
            cublasLtMatrixLayout_t,
            cublasLtMatrixLayoutAttribute_t,
            *const c_void,
            usize,
        );
        cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t);
        cublasLtMatmulPreferenceCreate(*mut cublasLtMatmulPreference_t);
        cublasLtMatmulPreferenceSetAttribute(
            cublasLtMatmulPreference_t,
            cublasLtMatmulPreferenceAttributes_t,
            *const c_void,
            usize,
        );
        cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t);
        cublasLtMatmulAlgoGetHeuristic(
            cublasLtHandle_t,
            cublasLtMatmulDesc_t,
            cublasLtMatrixLayout_t,
            cublasLtMatrixLayout_t,
            cublasLtMatrixLayout_t,
            cublasLtMatrixLayout_t,
            cublasLtMatmulPreference_t,
            c_int,
            *mut cublasLtMatmulHeuristicResult_t,
            *mut c_int,
        );
        cublasLtMatmul(
            cublasLtHandle_t,
            cublasLtMatmulDesc_t,
            *const c_void,
            *const c_void,
            cublasLtMatrixLayout_t,
            *const c_void,
            cublasLtMatrixLayout_t,
            *const c_void,
            *const c_void,
            cublasLtMatrixLayout_t,
            *mut c_void,
            cublasLtMatrixLayout_t,
            *const cublasLtMatmulAlgo_t,
            *mut c_void,
            usize,
            cudaStream_t,
        );
    }
}
