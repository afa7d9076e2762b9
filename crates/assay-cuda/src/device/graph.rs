//! Instantiated CUDA graphs.

use super::context::PrimaryContext;
use super::scratch::Block;
use super::stream::Stream;
use super::sync::lock;
use assay_runtime::backend::{DevicePointer, Operation, Result};
use cudarc::driver::sys::CUgraphExec;
use std::sync::{Arc, Mutex};

/// An executable graph.
pub(super) struct Graph {
    pub context: Arc<PrimaryContext>,
    pub handle: CUgraphExec,
    /// Its region in traces, and the slots of its launches; none if it stores no times.
    pub region: Option<(u64, DevicePointer)>,
    /// Streams it was launched on. Locked during a launch: only one thread may launch a graph.
    pub launched_on: Mutex<Vec<Arc<Stream>>>,
    /// The scratch memory of the streams it was captured on, which its launches use.
    pub scratch: Mutex<Vec<Arc<Block>>>,
}

// SAFETY: the handle may be used from any thread, one at a time, which the lock guarantees.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    pub fn launch(&self, stream: &Arc<Stream>) -> Result<()> {
        let operation = Operation::LaunchGraph;
        let driver = self.context.enter(operation)?;
        let mut launched_on = lock(&self.launched_on);
        // SAFETY: graph and stream are valid, and the lock excludes other launches.
        let status = unsafe { (driver.cuGraphLaunch)(self.handle, stream.handle()) };
        stream.check(operation, status)?;
        if !launched_on.iter().any(|known| Arc::ptr_eq(known, stream)) {
            launched_on.push(Arc::clone(stream));
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.enter(Operation::DestroyGraph) {
            // SAFETY: this is the last reference, and its launches have finished.
            let _ = unsafe { (driver.cuGraphExecDestroy)(self.handle) };
        }
    }
}
