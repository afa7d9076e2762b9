//! Matrix tiles (AMX): registers of sixteen rows of 64 bytes, and a unit that multiplies two of them.
//!
//! Numbers are bfloat16, sums are `f32`. The compiler has no stable words for these registers and never
//! touches them, so the instructions are written out.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(not(target_arch = "x86_64"))]
mod none;

use super::vector::LANES;

/// Numbers of the inner dimension that one step multiplies.
pub(crate) const STEP: usize = 32;
/// Sixteen columns of a step: two numbers of a column beside two of the next, then the next two.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Columns(pub [[u16; STEP]; LANES]);
/// Sums of sixteen rows by sixteen columns.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct Sums(pub [[f32; LANES]; LANES]);

#[cfg(target_arch = "x86_64")]
pub(super) use amx::granted;
#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{TileSession, Tiles};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{TileSession, Tiles};

/// Two times sixteen rows in memory, and two times sixteen columns for each step.
#[derive(Clone, Copy)]
// Nobody reads them where there are no tiles.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct Factors<'a> {
    /// The first of sixteen rows of bfloat16, twice.
    pub rows: [*const u16; 2],
    /// Bytes from one row to the next.
    pub row_bytes: usize,
    /// As many as `steps` times `terms`: rows begin again with each term.
    pub columns: [&'a [Columns]; 2],
    pub steps: usize,
    pub terms: usize,
    /// Whether to begin at zero instead of adding.
    pub fresh: bool,
}
