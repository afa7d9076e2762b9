//! Tensor maps: what the copy engine is told of an array, to bring tensor of it to shared memory.

use super::cuda_device::Queue;
use assay_runtime::backend::{BackendError, DevicePointer, KernelArgument, Operation, Result};
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use std::ffi::c_void;

/// Arguments of a kernel that one map takes, one for each of its words.
pub const MAP_WORDS: usize = 16;
/// The copy engine asks for arrays that begin at a multiple of this.
const MAP_ALIGNMENT: u64 = 16;
/// The same of the map itself.
#[repr(align(128))]
struct Aligned(CUtensorMap);

/// An array of numbers of 16 bits and the tensor that are taken from it, innermost extent first.
pub struct TiledTensor<const RANK: usize> {
    /// Where the array begins.
    pub pointer: DevicePointer,
    /// Its extents.
    pub sizes: [u64; RANK],
    /// From one number to the next along each extent; innermost they lie side by side.
    pub strides: [u64; RANK],
    /// The extents of a box; innermost 64 numbers, the row that is swizzled.
    pub box_sizes: [u32; RANK],
}

impl Queue<'_> {
    /// The map of an array, whose rows of 128 bytes are swizzled as wgmma reads them.
    ///
    /// What lies outside of the array is zero in a box.
    pub fn tensor_map<const RANK: usize>(
        &self,
        tensor: &TiledTensor<RANK>,
    ) -> Result<[KernelArgument; MAP_WORDS]> {
        let operation = Operation::Launch;
        if !tensor.pointer.0.is_multiple_of(MAP_ALIGNMENT) {
            return Err(BackendError::Driver {
                operation,
                message: format!(
                    "expected an array that begins at a multiple of {MAP_ALIGNMENT} bytes, got \
                     address {:#x}",
                    tensor.pointer.0
                ),
            });
        }
        let driver = self.device.context.enter(operation)?;
        let bytes = tensor.strides.map(|stride| 2 * stride);
        let each = [1; RANK];
        let mut map = Aligned(CUtensorMap {
            opaque: [0; MAP_WORDS],
        });
        // SAFETY: the arrays have as many numbers as the rank says, but for the innermost stride,
        // which is left out; the map is written and no memory of the device is touched.
        let status = unsafe {
            (driver.cuTensorMapEncodeTiled)(
                &raw mut map.0,
                CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
                RANK as u32,
                tensor.pointer.0 as *mut c_void,
                tensor.sizes.as_ptr(),
                bytes.as_ptr().add(1),
                tensor.box_sizes.as_ptr(),
                each.as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        self.device.context.check(operation, status)?;
        Ok(map.0.opaque.map(KernelArgument::U64))
    }
}
