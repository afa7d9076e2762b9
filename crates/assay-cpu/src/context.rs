//! Where operations run.

use crate::simd::Level;
use crate::threads::ThreadPool;
use std::sync::OnceLock;

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

    /// The caller's thread alone, for work that is done before another thread would have woken up.
    pub fn caller() -> Self {
        static ALONE: OnceLock<ThreadPool> = OnceLock::new();
        Context { threads: ALONE.get_or_init(|| ThreadPool::new(1)), level: Level::best() }
    }
}
