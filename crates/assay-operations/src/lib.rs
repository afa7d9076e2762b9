//! The operations that devices implement, by name: neural-network operations, which all devices
//! have, and array operations, which CPUs leave to NumPy.
//!
//! One table gives the operands and numbers of each operation; one encoding carries a call through
//! [`Launch`](assay_runtime::backend::Launch). A backend registers one kernel per row of the table,
//! so that callers depend neither on the device nor on its kernels.

#![forbid(unsafe_code)]

mod activation;
mod call;
pub mod expressions;
mod format;
mod fourier;
mod signature;
mod table;

pub use activation::Activation;
pub use call::{Arguments, CallError, Number, Operand, encode};
pub use format::ElementFormat;
pub use fourier::{FourierKind, FrameValue};
pub use signature::{Access, MOST_AXES, NumberKind, NumberRule, OperandRule, Signature};
pub use table::{TABLE, find};
