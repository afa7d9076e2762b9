//! Matrix tiles (AMX): registers of sixteen rows of 64 bytes, and a unit that multiplies two of them.
//!
//! Numbers are bfloat16, sums are `f32`. The compiler has no stable words for these registers and never
//! touches them, so the instructions are written out.

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
