//! An imported DLPack tensor.

use std::ffi::c_void;

use pyo3::prelude::*;

use super::structures::{DlManaged, DlManagedVersioned};

/// A tensor imported from another library; dropping it calls its deleter.
pub(in super::super) struct Tensor {
    pub(super) managed: *mut c_void,
    pub(super) versioned: bool,
}

// SAFETY: the pointer is only used in `drop`, under the GIL, as producers expect.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Drop for Tensor {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the tensor was taken over, so this calls its deleter exactly once.
            unsafe {
                if self.versioned {
                    let managed = self.managed.cast::<DlManagedVersioned>();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                } else {
                    let managed = self.managed.cast::<DlManaged>();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        });
    }
}
