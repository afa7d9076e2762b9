//! The delay kernel: lets its stream wait for as long as a slot in device memory says.

use super::cuda_device::{CudaDevice, Queue};
use super::kernel::{Function, LaunchConfig, LaunchOptions};
use assay_runtime::backend::{
    BackendError, DELAY_SLOT_BYTES, KernelArgument, KernelId, Launch, Operation, Result,
};
use std::sync::{Arc, OnceLock};

impl CudaDevice {
    /// Registers the delay kernel, whose argument is the address of a slot; its first launch
    /// compiles it.
    pub fn register_delay(&self) -> KernelId {
        let compiled = OnceLock::new();
        self.register_operation(
            "delay",
            1,
            Box::new(move |queue, launch| queue.delay(&compiled, launch)),
        )
    }
}

impl Queue<'_> {
    fn delay(&self, compiled: &OnceLock<Arc<Function>>, launch: &Launch) -> Result<()> {
        let [KernelArgument::Pointer(slot)] = launch.arguments[..] else {
            return Err(BackendError::Driver {
                operation: Operation::Launch,
                message: "delay: expected the address of a slot".to_owned(),
            });
        };
        self.device.memory.check_range(Operation::Launch, slot.into(), DELAY_SLOT_BYTES)?;
        let function = match compiled.get() {
            Some(function) => Arc::clone(function),
            None => {
                let options = LaunchOptions {
                    programmatic_dependent_launch: true,
                    ..LaunchOptions::default()
                };
                let function = Arc::new(self.device.compile_bundled("delay", options)?);
                Arc::clone(compiled.get_or_init(|| function))
            }
        };
        let config = LaunchConfig {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cluster: 1,
            prefers_l1: false,
        };
        self.launch(&function, config, &launch.arguments)
    }
}
