//! Matrix products: GEMM of two matrices, and linear layers over dense weights.

mod amx;
mod blocked;
mod epilogue;
mod gemv;
mod linear;
mod matmul;
mod matrix;
mod microkernel;
mod packing;
mod skinny;
mod small_m;

pub(crate) use amx::{
    MIN_AMX_ROWS, PanelSource, TileEpilogue, amx_matmul_applies, tile_gemm, with_bf16_rows,
};
pub use epilogue::Epilogue;
pub(crate) use gemv::Gemv;
pub use linear::{framed_linear, linear};
pub use matmul::matmul;
pub use matrix::{LinearShape, Matrix};
pub(super) use microkernel::microkernel;
pub(crate) use small_m::SmallMGemm;
