//! Matrix layout descriptors.

use super::problem::Matrix;
use super::status::check;
use crate::library::CublasLt;
use assay_runtime::backend::Result;
use cudarc::cublaslt::sys::{cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t as Lay};
use std::ptr;

/// The layout of a matrix, or of a strided batch.
pub(super) struct MatrixLayout {
    functions: &'static CublasLt,
    pub handle: cublasLtMatrixLayout_t,
}

impl MatrixLayout {
    /// `rows` and `columns` are those of memory.
    pub fn new(
        functions: &'static CublasLt,
        matrix: &Matrix,
        rows: u64,
        columns: u64,
        batch: u32,
    ) -> Result<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: stores one handle. Rows of memory are columns to cuBLASLt.
        check("a layout", unsafe {
            (functions.cublasLtMatrixLayoutCreate)(
                &raw mut handle,
                matrix.element.data(),
                columns,
                rows,
                matrix.stride.cast_signed(),
            )
        })?;
        let layout = MatrixLayout { functions, handle };
        if batch > 1 {
            layout.set(Lay::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch.cast_signed())?;
            let offset = matrix.batch_stride.cast_signed();
            layout.set(Lay::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset)?;
        }
        Ok(layout)
    }

    fn set<T>(&self, attribute: Lay, value: &T) -> Result<()> {
        // SAFETY: copies as many bytes as the value has.
        check("a layout", unsafe {
            (self.functions.cublasLtMatrixLayoutSetAttribute)(
                self.handle,
                attribute,
                ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        })
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: created by `new` and owned by this value.
        let _ = unsafe { (self.functions.cublasLtMatrixLayoutDestroy)(self.handle) };
    }
}
