//! Memory of Python objects as the two ends of a transfer.

use pyo3::buffer::PyUntypedBuffer;

/// Host bytes to read from, pinned while this lives.
pub(super) struct Source(PyUntypedBuffer);

impl Source {
    /// The buffer must be contiguous.
    pub fn new(buffer: PyUntypedBuffer) -> Self {
        Source(buffer)
    }

    pub fn bytes(&self) -> u64 {
        self.0.len_bytes() as u64
    }
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the memory is pinned, contiguous and this long; the caller of an upload is
            // told not to write to it meanwhile.
            bytes => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), bytes) },
        }
    }
}

/// Host bytes to write to, pinned while this lives.
pub(super) struct Sink(PyUntypedBuffer);

impl Sink {
    /// The buffer must be contiguous and writable.
    pub fn new(buffer: PyUntypedBuffer) -> Self {
        Sink(buffer)
    }

    pub fn bytes(&self) -> u64 {
        self.0.len_bytes() as u64
    }
}

impl AsMut<[u8]> for Sink {
    fn as_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: as in `Source`; the memory is writable and the caller of a download is told
            // not to touch it meanwhile.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), bytes) },
        }
    }
}
