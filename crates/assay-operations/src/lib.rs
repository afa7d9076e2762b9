//! The operations that backends offer, by name: those of networks, which all have, and those of
//! arrays, which processors leave to NumPy.
//!
//! One table says what each operation reads, writes and is told; one encoding carries a call
//! through [`Launch`](assay_runtime::backend::Launch). A backend registers one kernel for each row of the
//! table, so that whoever asks for an operation needs to know neither the device nor its kernels.

#![forbid(unsafe_code)]

mod activation;
mod call;
pub mod expressions;
mod format;
mod signature;
mod table;

pub use activation::Activation;
pub use call::{Arguments, CallError, Number, Operand, encode};
pub use format::ElementFormat;
pub use signature::{Access, MOST_AXES, NumberKind, NumberRule, OperandRule, Signature};
pub use table::{TABLE, find};
