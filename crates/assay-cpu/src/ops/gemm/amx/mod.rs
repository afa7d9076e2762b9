//! Products of many rows on AMX tiles, in bfloat16 with `f32` accumulation.

mod bf16_rows;
mod linear;
mod matmul;
mod operands;
mod store;
mod tile_gemm;

pub(crate) use bf16_rows::with_bf16_rows;
pub(super) use linear::{amx_linear, amx_linear_applies};
pub(super) use matmul::amx_matmul;
pub(crate) use matmul::amx_matmul_applies;
pub(crate) use operands::{PanelSource, TileEpilogue};
pub(crate) use tile_gemm::{MIN_AMX_ROWS, tile_gemm};
