//! The structures of `dlpack.h`, version 1.1.
//!
//! A capsule named `dltensor_versioned` carries a `DLManagedTensorVersioned`, one named `dltensor`
//! the older `DLManagedTensor`; the consumer renames the capsule and calls the
//! deleter at the end.

use std::ffi::{CStr, c_void};

pub const VERSIONED: &CStr = c"dltensor_versioned";
pub const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
pub const UNVERSIONED: &CStr = c"dltensor";
pub const USED_UNVERSIONED: &CStr = c"used_dltensor";

pub const READ_ONLY: u64 = 1;
pub const IS_COPIED: u64 = 2;
pub const CPU: i32 = 1;
pub const CUDA: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DlDevice {
    pub kind: i32,
    pub number: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DlDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
pub struct DlTensor {
    pub data: *mut c_void,
    pub device: DlDevice,
    pub ndim: i32,
    pub dtype: DlDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
pub struct DlVersion {
    pub major: u32,
    pub minor: u32,
}

#[repr(C)]
pub struct DlManagedVersioned {
    pub version: DlVersion,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedVersioned)>,
    pub flags: u64,
    pub tensor: DlTensor,
}

#[repr(C)]
pub struct DlManaged {
    pub tensor: DlTensor,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}
