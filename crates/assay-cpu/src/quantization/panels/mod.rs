//! Packed panels: weights of sixteen rows interleaved, one row per lane.
//!
//! A block of a panel holds the scales of all sixteen rows and then their codes, by sub-blocks of 32,
//! four of a row after four of the next. A vector of codes times four broadcast activations
//! accumulates sixteen rows at once, and no sum runs across lanes.

mod k_quants;
mod legacy_quants;
mod mxfp4;
mod panel;

pub(super) use k_quants::{Q4KPanel, Q5KPanel, Q6KPanel};
pub(super) use legacy_quants::{Q8Panel, Q40Panel, Q41Panel};
pub(super) use mxfp4::Mxfp4Panel;
pub(super) use panel::{CODE_BYTES, Panel, UnpackedGroup};
