//! Where operations run.

use crate::simd::Level;
use crate::threads::ThreadPool;

/// The thread pool and the SIMD level that operations run with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The threads that share the work.
    pub threads: &'a ThreadPool,
    /// The instructions to use.
    pub level: Level,
}

impl Context<'static> {
    /// All cores, and the best SIMD level they have.
    pub fn best() -> Self {
        Context { threads: ThreadPool::global(), level: Level::best() }
    }
}
