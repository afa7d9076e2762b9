//! What a problem is, as whoever asks for one says it.
//!
//! Matrices here are row-major.

use assay_runtime::backend::DevicePointer;
use cudarc::cublaslt::sys::cudaDataType as Data;

/// What a matrix is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit floats of 4 exponent bits.
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

/// A matrix as it lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Matrix {
    /// Its elements.
    pub element: Element,
    /// Whether the rows of memory are the columns of the matrix.
    pub transposed: bool,
    /// Elements from one row of memory to the next.
    pub stride: u64,
    /// Elements from one matrix of a batch to the next.
    pub batch_stride: u64,
    /// Bytes that its first element is a multiple of, as a power of two up to 256.
    pub alignment: u32,
}

/// What is done to the result on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// Negative numbers become zero.
    Relu,
    /// The tanh form of GELU.
    GeluTanh,
}

/// A kind of problem: out = epilogue(a b + c + bias).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GemmProblem {
    /// Products done at once.
    pub batch: u32,
    /// Rows of the result.
    pub rows: u64,
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
    /// Whether something of the result's layout is c.
    pub has_c: bool,
    /// The elements of the bias, if there is one.
    pub bias: Option<Element>,
    /// What comes last.
    pub epilogue: Epilogue,
    /// Whether single precision may be rounded to 19 bits on the way in.
    pub tf32: bool,
    /// Whether sums of 8-bit products may be kept short.
    pub fast_accumulation: bool,
    /// Whether there is a scale for each row of a and each column of b, rather than one for either.
    pub row_scales: bool,
}

/// Where the matrices of a problem are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GemmPointers {
    /// The left matrix.
    pub a: DevicePointer,
    /// The right matrix.
    pub b: DevicePointer,
    /// What is c, of the result's layout; may be the result.
    pub c: Option<DevicePointer>,
    /// One number for each column of the result.
    pub bias: Option<DevicePointer>,
    /// Scales of the two matrices, in device memory; for 8-bit floats.
    pub scales: Option<(DevicePointer, DevicePointer)>,
    /// The result.
    pub out: DevicePointer,
}
