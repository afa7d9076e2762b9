//! The strided layout of an array.

use pyo3::ffi;
use pyo3::prelude::*;

use super::errors;

/// Shape, strides and offset as native values; arrays of the same layout share it.
pub(super) struct Geometry {
    pub offset: usize,
    pub shape: Vec<ffi::Py_ssize_t>,
    pub strides: Vec<ffi::Py_ssize_t>,
    pub size: ffi::Py_ssize_t,
    /// Whether the layout is C-contiguous.
    pub in_order: bool,
}

impl Geometry {
    /// The geometry of a layout; an error if an element is outside `bytes` bytes.
    pub fn new(
        (shape, strides, offset): (Vec<isize>, Vec<isize>, usize),
        itemsize: isize,
        bytes: u64,
    ) -> PyResult<Self> {
        let mut geometry = Geometry { offset, shape, strides, size: 0, in_order: false };
        let Some(size) = geometry.size_within(itemsize, bytes) else {
            return Err(errors::invalid(&format!(
                "array: expected a view within a buffer of {bytes} bytes, got shape {:?} with \
                 strides {:?} from {}",
                geometry.shape, geometry.strides, geometry.offset
            )));
        };
        geometry.size = size;
        geometry.in_order = geometry.is_contiguous(itemsize, true);
        Ok(geometry)
    }

    /// The number of elements, if all of them are within `bytes` bytes.
    fn size_within(&self, itemsize: isize, bytes: u64) -> Option<isize> {
        if self.shape.len() != self.strides.len() {
            return None;
        }
        let size = self.shape.iter().try_fold(1_isize, |size, &extent| {
            (extent >= 0).then_some(())?;
            size.checked_mul(extent)
        })?;
        if size == 0 {
            return Some(0);
        }
        let (mut first, mut end) = (isize::try_from(self.offset).ok()?, itemsize);
        end = end.checked_add(first)?;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let last = (extent - 1).checked_mul(stride)?;
            first = first.checked_add(last.min(0))?;
            end = end.checked_add(last.max(0))?;
        }
        let bytes = isize::try_from(bytes).ok()?;
        (first >= 0 && end <= bytes).then_some(size)
    }

    /// Whether the layout is C-contiguous (`last_fastest`) or Fortran-contiguous.
    pub fn is_contiguous(&self, itemsize: isize, last_fastest: bool) -> bool {
        let mut expected = itemsize;
        let axes = self.shape.iter().zip(&self.strides);
        let mut follows = |(&extent, &stride): (&isize, &isize)| {
            let fits = extent == 1 || stride == expected;
            expected *= extent;
            fits
        };
        let all = match last_fastest {
            true => axes.rev().all(&mut follows),
            false => axes.into_iter().all(&mut follows),
        };
        all || self.size == 0
    }
}
