//! The functions of NVRTC that are used.

use super::functions;
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{c_char, c_int};

functions! {
    /// NVIDIA's run-time compiler, `libnvrtc`.
    Nvrtc in cudarc::nvrtc::sys, status nvrtcResult {
        nvrtcVersion(*mut c_int, *mut c_int);
        nvrtcGetNumSupportedArchs(*mut c_int);
        nvrtcGetSupportedArchs(*mut c_int);
        nvrtcCreateProgram(
            *mut nvrtcProgram,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        );
        nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char);
        nvrtcGetProgramLogSize(nvrtcProgram, *mut usize);
        nvrtcGetProgramLog(nvrtcProgram, *mut c_char);
        nvrtcGetCUBINSize(nvrtcProgram, *mut usize);
        nvrtcGetCUBIN(nvrtcProgram, *mut c_char);
        nvrtcGetPTXSize(nvrtcProgram, *mut usize);
        nvrtcGetPTX(nvrtcProgram, *mut c_char);
        nvrtcDestroyProgram(*mut nvrtcProgram);
    }
}
