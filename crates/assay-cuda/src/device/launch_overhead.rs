//! The driver's launch overhead, as a baseline for ours.

use super::cuda_device::CudaDevice;
use super::kernel::{LaunchConfig, LaunchOptions};
use super::module_loading::LoadError;
use crate::compiler::Source;
use assay_runtime::backend::Operation;
use std::time::{Duration, Instant};

/// An empty kernel with three pointers, like an addition.
const SOURCE: &str = r#"extern "C" __global__ void nothing(const float*, const float*, float*) {}"#;
const CTAS: u32 = 4;
const THREADS: u32 = 256;

impl CudaDevice {
    /// Host time of `launches` consecutive driver launches on the idle default stream.
    pub fn time_launches(&self, launches: u32) -> Result<Duration, LoadError> {
        let source = Source { name: "nothing.cu", text: SOURCE, headers: &[], options: &[] };
        let module = self.compile(&source)?;
        let function = module.function(
            "nothing",
            LaunchOptions { programmatic_dependent_launch: true, ..LaunchOptions::default() },
        )?;
        let stream = &self.default_stream;
        let operation = Operation::SynchronizeStream;
        stream.outside_capture(operation)?;
        stream.synchronize(operation, &self.watchdog)?;
        let config = LaunchConfig {
            grid: [CTAS, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            cluster: 1,
            prefers_l1: false,
        };
        let beginning = Instant::now();
        function.start(stream, config, &mut [0; 3], launches)?;
        let elapsed = beginning.elapsed();
        stream.synchronize(operation, &self.watchdog)?;
        Ok(elapsed)
    }
}
