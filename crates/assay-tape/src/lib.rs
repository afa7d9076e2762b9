//! Expression tapes: SSA programs over 64-bit floats, evaluated at many points at once.
//!
//! A [`Program`] is validated and simplified into a [`Tape`], which evaluates its outputs and their
//! exact derivatives in forward or reverse mode (JVP, VJP, Jacobian). Evaluation follows a plan:
//! values that are the same at every point are computed once, the rest in chunks of points over
//! registers that stay in cache. Derivatives keep all values of a chunk and sweep over them.

mod block;
mod detection;
mod error;
mod evaluate;
mod functions;
mod fusion;
mod gradient;
mod implicit;
mod input;
mod jacobian;
mod kernels;
mod machine;
mod op;
mod partials;
mod plan;
mod prefetch;
mod primal_values;
mod program;
mod rows;
mod scalar_operations;
mod serialization;
mod simd_level;
mod simplify;
mod sweep;
mod tape;
mod tracer;
mod validate;

#[cfg(test)]
mod tests;

pub use error::{Place, TapeError};
pub use evaluate::EvaluationReport;
pub use input::Input;
pub use op::Op;
pub use program::{Block, Instruction, MAX_INTEGER_POWER, Method, Program};
pub use serialization::decode_instructions;
pub use simd_level::has_kernels;
pub use tape::Tape;
