//! Borrows GPU memory of other libraries that the CUDA array interface describes.

use assay_runtime::backend::{Address, DevicePointer, Space};
use pyo3::prelude::*;

use super::backing::Backing;
use super::buffer::Memory;
use super::context::PyContext;
use super::errors;
use super::panic_guard::guarded;
use super::stream::PyStream;

/// Borrow memory of the context's GPU from another library; `owner` keeps it alive.
///
/// `producer` is the handle of the stream that writes the elements; the given stream waits for it.
#[pyfunction]
#[pyo3(signature = (context, owner, pointer, nbytes, stream, *, writable, producer=None))]
#[allow(clippy::too_many_arguments)]
pub(super) fn cuda_borrow(
    py: Python<'_>,
    context: PyRef<'_, PyContext>,
    owner: Py<PyAny>,
    pointer: u64,
    nbytes: u64,
    stream: PyRef<'_, PyStream>,
    writable: bool,
    producer: Option<u64>,
) -> PyResult<Memory> {
    let name = "__cuda_array_interface__";
    guarded(name, || {
        let runtime = context.runtime();
        let stream = stream.on(runtime, name)?;
        let device = runtime.cuda_device(name)?;
        let failed = |error| errors::backend(&error);
        if nbytes > 0 && !device.holds(DevicePointer(pointer)).map_err(failed)? {
            return Err(errors::invalid(&format!(
                "{name}: expected a pointer to memory of this GPU, got {pointer:#x}"
            )));
        }
        if let Some(producer) = producer {
            py.detach(|| device.follow(producer, stream)).map_err(failed)?;
        }
        let address = Address::new(Space::Device, pointer);
        let backing = Backing::Owner(owner);
        Ok(Memory::borrow(runtime, backing, address, nbytes, writable))
    })
}
