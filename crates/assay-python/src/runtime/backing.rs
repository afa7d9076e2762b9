//! What keeps memory alive, and how it is freed.

use assay_runtime::backend::{Backend, StreamId};
use assay_runtime::dispatch::DispatchController;
use assay_runtime::memory;
use pyo3::buffer::PyUntypedBuffer;

use super::dlpack::Tensor;
use super::evictable::Evictable;
use super::uses::Uses;

/// What keeps the memory alive.
pub(super) enum Backing {
    /// A block of the device's pool; once it is taken back, with the other streams that used it.
    Pool(memory::Buffer, Vec<StreamId>),
    /// Memory of the device's pool that may be on the host meanwhile.
    Evictable(Evictable),
    /// Memory of an object that speaks the buffer protocol.
    Object(#[allow(dead_code)] PyUntypedBuffer),
    /// A tensor taken over through DLPack.
    Tensor(#[allow(dead_code)] Tensor),
}

impl Backing {
    /// The same with the other streams that it comes after; work that is over needs no order.
    pub fn after(mut self, uses: &Uses) -> Self {
        if let Backing::Pool(buffer, streams) = &mut self {
            streams.extend(uses.streams().filter(|stream| *stream != buffer.stream()));
        }
        self
    }

    /// Whether only the stream that it was allocated for used it.
    pub fn is_in_order(&self) -> bool {
        matches!(self, Backing::Pool(_, streams) if streams.is_empty())
    }

    /// Gives it back after every stream that used it.
    pub fn free(self, backend: &dyn Backend, dispatch: &DispatchController) {
        let (buffer, streams) = match self {
            Backing::Pool(buffer, streams) => (buffer, streams),
            Backing::Evictable(evictable) => return evictable.free(dispatch),
            Backing::Object(_) | Backing::Tensor(_) => return,
        };
        for stream in streams {
            let Ok(event) = backend.create_event() else {
                continue;
            };
            let ordered = backend
                .record_event(event, stream)
                .and_then(|()| backend.wait_event(buffer.stream(), event));
            if ordered.is_err() {
                // The event could not order it, so the host waits instead.
                let _ = backend.synchronize_stream(stream);
            }
            let _ = backend.destroy_event(event);
        }
        drop(buffer);
    }
}
