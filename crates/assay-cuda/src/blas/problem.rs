//! GEMM problems over row-major matrices.

use assay_runtime::backend::DevicePointer;
use cudarc::cublaslt::sys::cudaDataType as Data;

/// Element types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit floats (e4m3).
    E4m3,
}

impl Element {
    pub(super) fn data(self) -> Data {
        match self {
            Element::F32 => Data::CUDA_R_32F,
            Element::F16 => Data::CUDA_R_16F,
            Element::Bf16 => Data::CUDA_R_16BF,
            Element::E4m3 => Data::CUDA_R_8F_E4M3,
        }
    }
}

/// The memory layout of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Matrix {
    /// The element type.
    pub element: Element,
    /// Whether the matrix is the transpose of what is in memory.
    pub transposed: bool,
    /// The leading dimension: elements from one row of memory to the next.
    pub stride: u64,
    /// Elements from one matrix of a batch to the next.
    pub batch_stride: u64,
    /// Alignment in bytes, a power of two up to 256.
    pub alignment: u32,
}

/// The epilogue of a GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// ReLU.
    Relu,
    /// GELU, tanh approximation.
    GeluTanh,
}

/// A GEMM problem: out = epilogue(a b + c + bias).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GemmProblem {
    /// Batch size.
    pub batch: u32,
    /// Rows of the result.
    pub rows: u64,
    /// Where every row must be summed in one order, whatever the rows: the algorithm is that of so
    /// many rows by the heuristic, which unlike a choice by time is the same in every process.
    pub algorithm_rows: Option<u64>,
    /// Columns of the result.
    pub columns: u64,
    /// Columns of a and rows of b.
    pub inner: u64,
    /// The left matrix.
    pub a: Matrix,
    /// The right matrix.
    pub b: Matrix,
    /// The result.
    pub out: Matrix,
    /// Whether there is a c operand, of the layout of the result.
    pub has_c: bool,
    /// The element type of the bias, if there is one.
    pub bias: Option<Element>,
    /// The epilogue.
    pub epilogue: Epilogue,
    /// Whether `f32` inputs may be rounded to TF32.
    pub tf32: bool,
    /// Whether fp8 products may use fast accumulation.
    pub fast_accumulation: bool,
    /// Whether there is a scale per row of a and per column of b, instead of one per matrix.
    pub row_scales: bool,
}

/// The operands of a GEMM in device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GemmPointers {
    /// The left matrix.
    pub a: DevicePointer,
    /// The right matrix.
    pub b: DevicePointer,
    /// The c operand; may be the result.
    pub c: Option<DevicePointer>,
    /// One element per column of the result.
    pub bias: Option<DevicePointer>,
    /// Scales of a and b, for fp8.
    pub scales: Option<(DevicePointer, DevicePointer)>,
    /// The result.
    pub out: DevicePointer,
}
