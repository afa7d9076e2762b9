//! The thread pool that kernels share, and disjoint writes from its tasks.

mod disjoint;
mod pool;

pub(crate) use disjoint::DisjointSlice;
pub use pool::ThreadPool;
