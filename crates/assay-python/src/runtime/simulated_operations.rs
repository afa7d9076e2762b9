//! The operations table on the simulated device.

use assay_operations::{Arguments, TABLE};
use assay_runtime::backend::{KernelArgument, KernelId, Launch};
use assay_runtime::sim::{Link, SimKernel};

/// The kernels of a simulated device. Their duration is that of their bytes over `link`; they leave
/// memory unchanged, and what they were to write cannot be read.
pub(super) fn kernels(link: Link) -> impl Iterator<Item = SimKernel> {
    TABLE.iter().map(move |signature| SimKernel {
        name: signature.name.to_owned(),
        parameters: signature.parameters(),
        duration_ns: Box::new(move |launch: &Launch| {
            let arguments: &[KernelArgument] = &launch.arguments;
            let call = Arguments::new(signature, arguments);
            link.duration_ns(call.map_or(0, |call| call.bytes()))
        }),
        body: None,
    })
}

/// The kernels of all operations, in the order of the table.
pub(super) type Operations = Vec<KernelId>;
