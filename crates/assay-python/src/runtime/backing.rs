//! The owner of an allocation's memory, and how the memory is freed.

use assay_runtime::backend::{Backend, StreamId};
use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use super::dlpack::Tensor;
use super::evictable::Evictable;
use super::uses::Uses;

/// The owner of the memory.
pub(super) enum Backing {
    /// A block of the device's pool; when freed, with the other streams that used it.
    Pool(memory::Buffer, Vec<StreamId>),
    /// Memory of the device's pool that may be evicted to the host.
    Evictable(Evictable),
    /// Memory of an object with the buffer protocol.
    Object(#[allow(dead_code)] PyUntypedBuffer),
    /// A tensor imported through DLPack.
    Tensor(#[allow(dead_code)] Tensor),
    /// GPU memory of an object with the CUDA array interface.
    Owner(#[allow(dead_code)] Py<PyAny>),
}

impl Backing {
    /// Adds the other streams that the free must be ordered after; finished work needs no order.
    pub fn after(mut self, uses: &Uses) -> Self {
        if let Backing::Pool(buffer, streams) = &mut self {
            streams.extend(uses.streams().filter(|stream| *stream != buffer.stream()));
        }
        self
    }

    /// Whether only the stream of the allocation used it.
    pub fn is_in_order(&self) -> bool {
        matches!(self, Backing::Pool(_, streams) if streams.is_empty())
    }

    /// Frees it after every stream that used it.
    pub fn free(self, backend: &dyn Backend, dispatch: &DispatchController) {
        let (buffer, streams) = match self {
            Backing::Pool(buffer, streams) => (buffer, streams),
            Backing::Evictable(evictable) => return evictable.free(dispatch),
            Backing::Object(_) | Backing::Tensor(_) | Backing::Owner(_) => return,
        };
        for stream in streams {
            let Ok(event) = backend.create_event() else {
                continue;
            };
            let ordered = backend
                .record_event(event, stream)
                .and_then(|()| backend.wait_event(buffer.stream(), event));
            if ordered.is_err() {
                // Without an event to order the free, the host waits instead.
                let _ = backend.synchronize_stream(stream);
            }
            let _ = backend.destroy_event(event);
        }
        drop(buffer);
    }
}
