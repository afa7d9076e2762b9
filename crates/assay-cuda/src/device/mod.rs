//! One NVIDIA GPU as a device: primary context, streams, events, graph capture, stream-ordered
//! memory, modules and kernels.

mod backend;
mod capture;
mod context;
mod cuda_device;
mod delay;
mod driver_event;
mod error;
mod event;
mod external_streams;
mod graph;
mod kernel;
mod launch_overhead;
mod memory;
mod module_loading;
mod queue;
mod scratch;
mod stream;
mod sync;
mod tensor_map;
mod trace;
mod watchdog;

pub use cuda_device::{CudaDevice, CudaOptions, OperationBody, Queue};
pub use error::DeviceError;
pub use kernel::{Function, LaunchConfig, LaunchOptions, Module};
pub use module_loading::LoadError;
pub use tensor_map::TiledTensor;
