//! Tensor maps: the TMA descriptors of arrays whose boxes are copied to shared memory.

use super::cuda_device::Queue;
use assay_runtime::backend::{BackendError, DevicePointer, KernelArgument, Operation, Result};
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use std::ffi::c_void;

/// Words of a tensor map, each a kernel argument.
pub const MAP_WORDS: usize = 16;
/// The alignment that TMA requires of arrays.
const MAP_ALIGNMENT: u64 = 16;
/// The alignment that the driver requires of a map.
#[repr(align(128))]
struct Aligned(CUtensorMap);

/// An array of 16-bit elements and the box that TMA copies, innermost dimension first.
pub struct TiledTensor<const RANK: usize> {
    /// The first element.
    pub pointer: DevicePointer,
    /// The array's dimensions.
    pub sizes: [u64; RANK],
    /// Strides in elements; the innermost is 1.
    pub strides: [u64; RANK],
    /// The dimensions of a box; the innermost is 64 elements, one swizzled row.
    pub box_sizes: [u32; RANK],
}

impl Queue<'_> {
    /// Encodes the tensor map of an array, with the 128-byte swizzle that wgmma reads.
    ///
    /// Elements outside of the array are zero in a box.
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
        let mut map = Aligned(CUtensorMap { opaque: [0; MAP_WORDS] });
        // SAFETY: the arrays have `RANK` elements, except for the strides, which omit the innermost; only
        // the map is written.
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
