//! Arrays in native code: an allocation, a strided layout, an element type and operators.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use assay_operations::ElementFormat;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::allocation::Allocation;
use super::array_operators::{self, Operated};
use super::buffer::Memory;
use super::buffer_protocol::{self, ArrayView, format_string};
use super::errors;
use super::geometry::Geometry;

/// A strided view of a buffer that implements the buffer protocol.
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
    allocation: Arc<Allocation>,
    /// The `Buffer` object of the allocation, created on first access.
    buffer: OnceLock<Py<Memory>>,
    geometry: Arc<Geometry>,
    itemsize: ffi::Py_ssize_t,
    element: ElementFormat,
}

/// The dtype and the Python class of result arrays.
pub(super) struct ResultType {
    dtype: Py<PyAny>,
    kind: Py<PyType>,
    pub element: ElementFormat,
    pub itemsize: isize,
}

impl ResultType {
    pub fn new(py: Python<'_>, dtype: Py<PyAny>, kind: Py<PyType>) -> PyResult<Self> {
        let (element, itemsize) = format_and_itemsize(dtype.bind(py))?;
        Ok(ResultType { dtype, kind, element, itemsize })
    }
}

/// A layout as a Python object and as native geometry.
pub(super) struct ArrayLayout {
    layout: Py<PyAny>,
    geometry: Arc<Geometry>,
}

impl ArrayLayout {
    /// Checks that a layout stays within `bytes` bytes.
    pub fn new(py: Python<'_>, layout: Py<PyAny>, itemsize: isize, bytes: u64) -> PyResult<Self> {
        let geometry = Geometry::new(layout.extract(py)?, itemsize, bytes)?;
        Ok(ArrayLayout { layout, geometry: Arc::new(geometry) })
    }
}

/// The element format and itemsize of a dtype.
fn format_and_itemsize(dtype: &Bound<'_, PyAny>) -> PyResult<(ElementFormat, isize)> {
    let code: u32 = dtype.getattr(intern!(dtype.py(), "element"))?.extract()?;
    let element = ElementFormat::from_code(code).filter(|known| format_string(*known).is_some());
    let known = element.and_then(|one| Some((one, one.element_bytes()? as isize)));
    known.ok_or_else(|| {
        errors::invalid(&format!("array: expected elements that arrays have, got format {code}"))
    })
}

thread_local! {
    /// An array that the constructor of a Python subclass takes over.
    static PENDING: Cell<Option<PyArray>> = const { Cell::new(None) };
}

impl PyArray {
    /// The allocation that it is a view of.
    pub fn memory(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// The Python object of the device.
    pub fn device(&self) -> &Py<PyAny> {
        &self.device
    }

    /// An array of this device over a new allocation, with `layout` or with its own layout.
    pub fn new_like<'py>(
        &self,
        py: Python<'py>,
        allocation: Arc<Allocation>,
        result: &ResultType,
        layout: Option<&ArrayLayout>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (layout, geometry) = match layout {
            Some(layout) => (&layout.layout, &layout.geometry),
            None => (&self.layout, &self.geometry),
        };
        PENDING.set(Some(PyArray {
            device: self.device.clone_ref(py),
            dtype: result.dtype.clone_ref(py),
            layout: layout.clone_ref(py),
            allocation,
            buffer: OnceLock::new(),
            geometry: Arc::clone(geometry),
            itemsize: result.itemsize,
            element: result.element,
        }));
        let array = result.kind.bind(py).call0();
        PENDING.set(None);
        array
    }

    /// Whether another array has the same shape, strides and offset.
    pub fn has_layout_of(&self, other: &PyArray) -> bool {
        Arc::ptr_eq(&self.geometry, &other.geometry)
            || (self.geometry.offset == other.geometry.offset
                && self.geometry.shape == other.geometry.shape
                && self.geometry.strides == other.geometry.strides)
    }

    /// Whether the array is C-contiguous at offset 0.
    pub fn is_contiguous_from_start(&self) -> bool {
        self.geometry.offset == 0 && self.geometry.in_order
    }

    /// The element format.
    pub fn element(&self) -> ElementFormat {
        self.element
    }

    /// Bytes from the start of the buffer to the first element.
    pub fn offset(&self) -> u64 {
        self.geometry.offset as u64
    }

    /// The shape.
    pub fn shape(&self) -> &[isize] {
        &self.geometry.shape
    }

    /// The strides in bytes.
    pub fn strides(&self) -> &[isize] {
        &self.geometry.strides
    }

    /// Bytes of one element.
    pub fn itemsize(&self) -> isize {
        self.itemsize
    }

    pub fn size(&self) -> ffi::Py_ssize_t {
        self.geometry.size
    }
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (*parts), text_signature = "(device, buffer, dtype, layout)")]
    fn new(py: Python<'_>, parts: &Bound<'_, PyTuple>) -> PyResult<Self> {
        if parts.is_empty()
            && let Some(ready) = PENDING.take()
        {
            return Ok(ready);
        }
        let (device, buffer, dtype, layout): (_, Py<Memory>, Py<PyAny>, Py<PyAny>) =
            parts.extract()?;
        let (element, itemsize) = format_and_itemsize(dtype.bind(py))?;
        let geometry = Geometry::new(layout.extract(py)?, itemsize, buffer.get().bytes())?;
        Ok(PyArray {
            device,
            dtype,
            layout,
            allocation: Arc::clone(buffer.get()),
            buffer: buffer.into(),
            geometry: Arc::new(geometry),
            itemsize,
            element,
        })
    }

    /// The buffer.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> PyResult<Py<Memory>> {
        if let Some(buffer) = self.buffer.get() {
            return Ok(buffer.clone_ref(py));
        }
        let buffer = Py::new(py, Memory::new(Arc::clone(&self.allocation)))?;
        Ok(self.buffer.get_or_init(|| buffer).clone_ref(py))
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "add"), slf, other)
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "add"), other, slf)
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "subtract"), slf, other)
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "subtract"), other, slf)
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "multiply"), slf, other)
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "multiply"), other, slf)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "divide"), slf, other)
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "divide"), other, slf)
    }

    fn __floordiv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "floor_divide"), slf, other)
    }

    fn __rfloordiv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "floor_divide"), other, slf)
    }

    fn __mod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "remainder"), slf, other)
    }

    fn __rmod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "remainder"), other, slf)
    }

    fn __and__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_and"), slf, other)
    }

    fn __rand__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_and"), other, slf)
    }

    fn __or__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_or"), slf, other)
    }

    fn __ror__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_or"), other, slf)
    }

    fn __xor__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_xor"), slf, other)
    }

    fn __rxor__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_xor"), other, slf)
    }

    fn __lshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_left_shift"), slf, other)
    }

    fn __rlshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_left_shift"), other, slf)
    }

    fn __rshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_right_shift"), slf, other)
    }

    fn __rrshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        array_operators::binary(intern!(slf.py(), "bitwise_right_shift"), other, slf)
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        array_operators::unary(intern!(slf.py(), "negative"), slf)
    }

    fn __pos__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        array_operators::unary(intern!(slf.py(), "positive"), slf)
    }

    fn __abs__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        array_operators::unary(intern!(slf.py(), "abs"), slf)
    }

    fn __invert__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        array_operators::unary(intern!(slf.py(), "bitwise_invert"), slf)
    }

    /// # Safety
    ///
    /// `view` must be a `Py_buffer` that this call may fill in, as the buffer protocol specifies.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = slf.get();
        let source = ArrayView {
            memory: &array.allocation,
            geometry: &array.geometry,
            itemsize: array.itemsize,
            element: array.element,
        };
        // SAFETY: Python passes a `Py_buffer` to fill in, which is forwarded; the geometry is
        // immutable and lives as long as the array.
        unsafe { buffer_protocol::fill(slf.as_any(), &source, view, flags) }
    }

    /// # Safety
    ///
    /// Python calls this once for every view that was exported.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.allocation.unexport();
    }
}
