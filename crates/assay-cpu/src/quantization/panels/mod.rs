//! Weights of sixteen rows side by side, one row per lane, as the kernels read them.
//!
//! A block of the inner dimension holds the scales of all sixteen rows and then their codes, sub_block by
//! sub_block of 32, four of a row after four of the next. A vector of codes times four broadcast
//! activations then adds to sixteen rows at once, and nothing is summed across lanes.

mod k_quants;
mod legacy_quants;
mod panel;

pub(super) use k_quants::{Q4KPanel, Q6KPanel};
pub(super) use legacy_quants::{Q8Panel, Q40Panel, Q41Panel};
pub(super) use panel::{CODE_BYTES, Panel, UnpackedGroup};
