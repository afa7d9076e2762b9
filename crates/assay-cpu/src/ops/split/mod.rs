//! Products of single-precision operands on AMX tiles: each number as a high and a low bfloat16 half. Operations that meet a number
//! that is not finite say so, and are done without tiles.

mod finite;
mod linear;
mod matmul;
mod packing;

pub(super) use finite::AllFinite;
pub(super) use linear::{split_linear, split_linear_applies};
pub(super) use matmul::{pack_column_panel, pack_row_panel};
pub(crate) use matmul::{split_products, split_products_apply};
pub(super) use packing::{PackColumns, PackRows, pack_columns, pack_rows};
