//! The functions of the driver that are used; CUDA 12.4 has all of them.

use super::functions;
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent,
    CUfunction, CUfunction_attribute, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode,
    CUgraphNodeType, CUkernel, CUlaunchConfig, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
    CUmodule, CUpointer_attribute, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

functions! {
    /// NVIDIA's driver, `libcuda`.
    Driver in cudarc::driver::sys, status CUresult {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuGetErrorName(CUresult, *mut *const c_char);
        cuGetErrorString(CUresult, *mut *const c_char);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut CUdevice, c_int);
        cuDeviceGetName(*mut c_char, c_int, CUdevice);
        cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
        cuDeviceTotalMem_v2(*mut usize, CUdevice);
        cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        cuDevicePrimaryCtxRelease_v2(CUdevice);
        cuCtxSetCurrent(CUcontext);
        cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemPoolCreate(*mut CUmemoryPool, *const CUmemPoolProps);
        cuMemPoolDestroy(CUmemoryPool);
        cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, *mut c_void);
        cuMemPoolTrimTo(CUmemoryPool, usize);
        cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        cuMemFreeAsync(CUdeviceptr, CUstream);
        cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemFreeHost(*mut c_void);
        cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
        cuStreamDestroy_v2(CUstream);
        cuStreamQuery(CUstream);
        cuStreamSynchronize(CUstream);
        cuStreamWaitEvent(CUstream, CUevent, c_uint);
        cuEventCreate(*mut CUevent, c_uint);
        cuEventDestroy_v2(CUevent);
        cuEventRecord(CUevent, CUstream);
        cuEventQuery(CUevent);
        cuEventSynchronize(CUevent);
        // The second version came with 12.8; the first is in every driver.
        cuEventElapsedTime as cuEventElapsedTime_v2(*mut f32, CUevent, CUevent);
        cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        cuModuleLoadData(*mut CUmodule, *const c_void);
        cuModuleUnload(CUmodule);
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        cuModuleGetFunctionCount(*mut c_uint, CUmodule);
        cuModuleEnumerateFunctions(*mut CUfunction, c_uint, CUmodule);
        cuFuncGetName(*mut *const c_char, CUfunction);
        cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
        cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
        cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
        cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
        cuTensorMapEncodeTiled(
            *mut CUtensorMap,
            CUtensorMapDataType,
            u32,
            *mut c_void,
            *const u64,
            *const u64,
            *const u32,
            *const u32,
            CUtensorMapInterleave,
            CUtensorMapSwizzle,
            CUtensorMapL2promotion,
            CUtensorMapFloatOOBfill,
        );
        cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
        cuStreamEndCapture(CUstream, *mut CUgraph);
        cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
        cuStreamGetCaptureInfo_v3(
            CUstream,
            *mut CUstreamCaptureStatus,
            *mut u64,
            *mut CUgraph,
            *mut *const CUgraphNode,
            *mut *const CUgraphEdgeData,
            *mut usize,
        );
        cuGraphGetNodes(CUgraph, *mut CUgraphNode, *mut usize);
        cuGraphNodeGetType(CUgraphNode, *mut CUgraphNodeType);
        cuGraphKernelNodeGetParams_v2(CUgraphNode, *mut CUDA_KERNEL_NODE_PARAMS);
        cuKernelGetName(*mut *const c_char, CUkernel);
        cuGraphDestroy(CUgraph);
        cuGraphExecDestroy(CUgraphExec);
        cuGraphLaunch(CUgraphExec, CUstream);
    }
}

/// No error.
pub(crate) const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;
/// The work is still running.
pub(crate) const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
/// Out of memory.
pub(crate) const OUT_OF_MEMORY: u32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
/// No CUDA device.
pub(crate) const NO_DEVICE: u32 = CUresult::CUDA_ERROR_NO_DEVICE as u32;

/// Sticky errors: the kernel or the hardware faulted, and the context is lost.
const FAULTS: [CUresult; 11] = [
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
];

/// Whether the error is sticky.
pub(crate) fn is_fault(status: u32) -> bool {
    FAULTS.iter().any(|fault| *fault as u32 == status)
}

impl Driver {
    /// The driver's name and description of a status.
    pub fn describe(&self, status: u32) -> String {
        type Describe = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
        let text = |function: unsafe extern "C" fn(CUresult, *mut *const c_char) -> u32| {
            // SAFETY: only the first parameter's type differs, an enum over u32; as a plain number
            // it may also be a status that is newer than the enum.
            let function: Describe = unsafe { std::mem::transmute(function) };
            let mut found: *const c_char = std::ptr::null();
            // SAFETY: the driver stores a pointer to a string of its own, or leaves null.
            unsafe {
                if function(status, &raw mut found) != SUCCESS || found.is_null() {
                    return None;
                }
                Some(CStr::from_ptr(found).to_string_lossy().into_owned())
            }
        };
        match (text(self.cuGetErrorName), text(self.cuGetErrorString)) {
            (Some(name), Some(sentence)) => format!("{name} ({sentence})"),
            _ => format!("error {status}"),
        }
    }
}
