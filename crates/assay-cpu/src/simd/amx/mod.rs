//! AMX: tile registers of sixteen rows of 64 bytes, and products of bfloat16 tiles accumulated in
//! `f32`.
//!
//! The compiler has no stable intrinsics for tile registers and never uses them, so the instructions
//! are inline assembly.

#[cfg(target_arch = "x86_64")]
mod instructions;
mod tile;
#[cfg(not(target_arch = "x86_64"))]
mod unsupported;

#[cfg(target_arch = "x86_64")]
pub(super) use instructions::is_permitted;
#[cfg(target_arch = "x86_64")]
pub(crate) use instructions::{Amx, AmxSession};
pub(crate) use tile::{TILE_K, TileB, TileC, TileOperands};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use unsupported::{Amx, AmxSession};
