//! AMX: tile registers of sixteen rows of 64 bytes, and products of bfloat16 tiles accumulated in
//! `f32`.
//!
//! The compiler has no stable intrinsics for tile registers and never uses them, so the instructions
//! are inline assembly.

#[cfg(level = "avx512+vnni")]
mod instructions;
#[cfg(level = "avx512+vnni")]
mod split;
mod tile;
#[cfg(not(level = "avx512+vnni"))]
mod unsupported;

#[cfg(level = "avx512+vnni")]
pub(super) use instructions::is_permitted;
#[cfg(level = "avx512+vnni")]
pub(crate) use instructions::{Amx, AmxSession};
pub(crate) use tile::{
    SPLIT_SIDE, SPLIT_TERMS, SplitColumns, SplitStep, StepOffsets, TILE_K, TileB, TileC,
    TileOperands,
};
#[cfg(not(level = "avx512+vnni"))]
pub(crate) use unsupported::{Amx, AmxSession};
