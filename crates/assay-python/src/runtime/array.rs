//! What an array is to other libraries: a shape and strides over a buffer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use assay_core::operations::ElementFormat;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use super::barrier::guarded;
use super::buffer::Memory;
use super::errors;
use super::machine::outside_operation;
use super::residence::Pinned;

/// A strided view of a buffer that speaks the buffer protocol.
#[pyclass(name = "NativeArray", module = "assay._native", frozen, subclass)]
pub(super) struct PyArray {
    /// The device.
    #[pyo3(get)]
    device: Py<PyAny>,
    /// The type of the elements.
    #[pyo3(get)]
    dtype: Py<PyAny>,
    /// Shape, strides and offset together.
    #[pyo3(get)]
    layout: Py<PyAny>,
    buffer: Py<Memory>,
    offset: usize,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
    itemsize: ffi::Py_ssize_t,
    element: ElementFormat,
}

/// What the buffer protocol calls elements; bfloat16 goes as the integers that store it.
fn letters(element: ElementFormat) -> Option<&'static CStr> {
    Some(match element {
        ElementFormat::F32 => c"f",
        ElementFormat::F16 => c"e",
        ElementFormat::Bf16 | ElementFormat::U16 => c"H",
        ElementFormat::I32 => c"i",
        ElementFormat::I64 => c"l",
        ElementFormat::U8 => c"B",
        ElementFormat::F64 => c"d",
        ElementFormat::Bool => c"?",
        ElementFormat::I8 => c"b",
        ElementFormat::I16 => c"h",
        ElementFormat::U32 => c"I",
        ElementFormat::U64 => c"L",
        ElementFormat::Complex64 => c"Zf",
        ElementFormat::Complex128 => c"Zd",
        _ => return None,
    })
}

impl PyArray {
    /// The memory that it is a view of.
    pub fn memory(&self) -> &Memory {
        self.buffer.get()
    }

    /// The device and the layout as Python has them.
    pub fn described(&self, py: Python<'_>) -> (Py<PyAny>, Py<PyAny>) {
        (self.device.clone_ref(py), self.layout.clone_ref(py))
    }

    /// How its elements are stored.
    pub fn element(&self) -> ElementFormat {
        self.element
    }

    /// Bytes from the start of the buffer to the first element.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// The extent of each axis.
    pub fn shape(&self) -> &[isize] {
        &self.shape
    }

    /// Bytes from one element to the next along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Bytes of one element.
    pub fn itemsize(&self) -> isize {
        self.itemsize
    }

    pub fn size(&self) -> ffi::Py_ssize_t {
        self.shape.iter().product()
    }

    /// Whether the elements lie one after the other, with the last axis fastest or the first.
    pub fn is_contiguous(&self, last_fastest: bool) -> bool {
        let mut expected = self.itemsize;
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
        all || self.size() == 0
    }

    /// Refuses a view that reaches past its buffer.
    fn check(&self) -> PyResult<()> {
        let inside = || -> Option<bool> {
            let size = self.shape.iter().try_fold(1_isize, |size, &extent| {
                (extent >= 0).then_some(())?;
                size.checked_mul(extent)
            })?;
            if size == 0 {
                return Some(true);
            }
            let (mut first, mut end) = (isize::try_from(self.offset).ok()?, self.itemsize);
            end = end.checked_add(first)?;
            for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
                let last = (extent - 1).checked_mul(stride)?;
                first = first.checked_add(last.min(0))?;
                end = end.checked_add(last.max(0))?;
            }
            let bytes = isize::try_from(self.buffer.get().bytes()).ok()?;
            Some(first >= 0 && end <= bytes)
        };
        match self.shape.len() == self.strides.len() && inside() == Some(true) {
            true => Ok(()),
            false => Err(errors::invalid(&format!(
                "array: expected a view within a buffer of {} bytes, got shape {:?} with strides \
                 {:?} from {}",
                self.buffer.get().bytes(),
                self.shape,
                self.strides,
                self.offset
            ))),
        }
    }
}

/// Whether the consumer asked for this, by all of its bits.
fn asks(flags: c_int, wanted: c_int) -> bool {
    flags & wanted == wanted
}

#[pymethods]
impl PyArray {
    #[new]
    fn new(
        py: Python<'_>,
        device: Py<PyAny>,
        buffer: Py<Memory>,
        dtype: Py<PyAny>,
        layout: Py<PyAny>,
    ) -> PyResult<Self> {
        let (shape, strides, offset) = layout.extract(py)?;
        let code: u32 = dtype.bind(py).getattr(intern!(py, "element"))?.extract()?;
        let element = ElementFormat::from_code(code).filter(|known| letters(*known).is_some());
        let Some((element, itemsize)) = element.and_then(|one| Some((one, one.element_bytes()?)))
        else {
            return Err(errors::invalid(&format!(
                "array: expected elements that arrays have, got format {code}"
            )));
        };
        let array = PyArray {
            device,
            dtype,
            layout,
            buffer,
            offset,
            shape,
            strides,
            itemsize: itemsize as isize,
            element,
        };
        array.check()?;
        Ok(array)
    }

    /// The memory.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> Py<Memory> {
        self.buffer.clone_ref(py)
    }

    /// # Safety
    ///
    /// `view` is Python's to fill in, as the buffer protocol says.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = slf.get();
        let memory = array.buffer.get();
        guarded("buffer", || {
            memory.alive("buffer")?;
            if asks(flags, ffi::PyBUF_WRITABLE) && !memory.is_writable() {
                return Err(PyBufferError::new_err(
                    "buffer: expected writable memory, got memory borrowed for reading only",
                ));
            }
            let in_order = array.is_contiguous(true);
            let refused = (asks(flags, ffi::PyBUF_C_CONTIGUOUS) && !in_order)
                || (asks(flags, ffi::PyBUF_F_CONTIGUOUS) && !array.is_contiguous(false))
                || (!asks(flags, ffi::PyBUF_STRIDES) && !in_order);
            if refused {
                return Err(PyBufferError::new_err(format!(
                    "buffer: expected contiguous memory, got shape {:?} with strides {:?}",
                    array.shape, array.strides
                )));
            }
            let _pinned = Pinned::for_host(slf.py(), memory)?;
            let pointer = memory.host_pointer("buffer")?;
            if memory.is_used() {
                outside_operation("buffer")?;
                slf.py().detach(|| memory.wait())?;
            }
            let list = |values: &Vec<ffi::Py_ssize_t>, wanted: bool| match wanted {
                true => values.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            };
            let letters = letters(array.element).filter(|_| asks(flags, ffi::PyBUF_FORMAT));
            let format = match letters {
                Some(letters) => letters.as_ptr().cast_mut(),
                None => ptr::null_mut::<c_char>(),
            };
            // SAFETY: Python passes a `Py_buffer` to be filled in. What it points to is never
            // changed and lives in this object, to which the view holds a reference; the bytes
            // live as long, because `free` refuses while there are exports.
            unsafe {
                (*view).buf = pointer.wrapping_add(array.offset).cast::<c_void>();
                (*view).obj = slf.clone().into_any().into_ptr();
                (*view).len = array.size() * array.itemsize;
                (*view).itemsize = array.itemsize;
                (*view).readonly = c_int::from(!memory.is_writable());
                (*view).ndim = array.shape.len() as c_int;
                (*view).format = format;
                (*view).shape = list(&array.shape, asks(flags, ffi::PyBUF_ND));
                (*view).strides = list(&array.strides, asks(flags, ffi::PyBUF_STRIDES));
                (*view).suboffsets = ptr::null_mut();
                (*view).internal = ptr::null_mut();
            }
            memory.export();
            Ok(())
        })
    }

    /// # Safety
    ///
    /// Called by Python once for every view that was handed out.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.buffer.get().unexport();
    }
}
