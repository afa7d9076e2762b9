//! What an array is to other libraries: a shape and strides over a buffer.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use assay_core::operations::ElementFormat;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::barrier::guarded;
use super::block::Block;
use super::buffer::Memory;
use super::errors;
use super::machine::outside_operation;
use super::operators;
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
    block: Arc<Block>,
    /// The block as Python sees it, made when someone looks.
    buffer: OnceLock<Py<Memory>>,
    geometry: Arc<Geometry>,
    itemsize: ffi::Py_ssize_t,
    element: ElementFormat,
}

/// What a layout says, as operations read it; arrays that came of one another share it.
struct Geometry {
    offset: usize,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
    size: ffi::Py_ssize_t,
    /// Whether the elements lie one after the other, with the last axis fastest.
    in_order: bool,
}

/// What arrays of an operation's results are made as: their type, and the class of Python's.
pub(super) struct Elements {
    dtype: Py<PyAny>,
    kind: Py<PyType>,
    pub element: ElementFormat,
    pub itemsize: isize,
}

impl Elements {
    pub fn new(py: Python<'_>, dtype: Py<PyAny>, kind: Py<PyType>) -> PyResult<Self> {
        let (element, itemsize) = described(dtype.bind(py))?;
        Ok(Elements {
            dtype,
            kind,
            element,
            itemsize,
        })
    }
}

/// A layout as Python has it and as operations read it.
pub(super) struct Places {
    layout: Py<PyAny>,
    geometry: Arc<Geometry>,
}

impl Places {
    /// Those of a layout that fills memory of so many bytes.
    pub fn new(py: Python<'_>, layout: Py<PyAny>, itemsize: isize, bytes: u64) -> PyResult<Self> {
        let geometry = Geometry::new(layout.extract(py)?, itemsize, bytes)?;
        Ok(Places {
            layout,
            geometry: Arc::new(geometry),
        })
    }
}

/// How elements of a type are stored, and in how many bytes.
fn described(dtype: &Bound<'_, PyAny>) -> PyResult<(ElementFormat, isize)> {
    let code: u32 = dtype.getattr(intern!(dtype.py(), "element"))?.extract()?;
    let element = ElementFormat::from_code(code).filter(|known| letters(*known).is_some());
    let known = element.and_then(|one| Some((one, one.element_bytes()? as isize)));
    known.ok_or_else(|| {
        errors::invalid(&format!(
            "array: expected elements that arrays have, got format {code}"
        ))
    })
}

thread_local! {
    /// An array that is there already, on its way into an object of a class of Python's.
    static READY: Cell<Option<PyArray>> = const { Cell::new(None) };
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
    pub fn memory(&self) -> &Arc<Block> {
        &self.block
    }

    /// The device as Python has it.
    pub fn device(&self) -> &Py<PyAny> {
        &self.device
    }

    /// An array of this device over fresh memory, whose elements lie as told, or as its own.
    pub fn beside<'py>(
        &self,
        py: Python<'py>,
        block: Arc<Block>,
        result: &Elements,
        places: Option<&Places>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (layout, geometry) = match places {
            Some(places) => (&places.layout, &places.geometry),
            None => (&self.layout, &self.geometry),
        };
        READY.set(Some(PyArray {
            device: self.device.clone_ref(py),
            dtype: result.dtype.clone_ref(py),
            layout: layout.clone_ref(py),
            block,
            buffer: OnceLock::new(),
            geometry: Arc::clone(geometry),
            itemsize: result.itemsize,
            element: result.element,
        }));
        let made = result.kind.bind(py).call0();
        READY.set(None);
        made
    }

    /// Whether another array has elements in the same places.
    pub fn has_places_of(&self, other: &PyArray) -> bool {
        Arc::ptr_eq(&self.geometry, &other.geometry)
            || (self.geometry.offset == other.geometry.offset
                && self.geometry.shape == other.geometry.shape
                && self.geometry.strides == other.geometry.strides)
    }

    /// Whether the elements lie one after the other, from the start of the memory.
    pub fn is_whole(&self) -> bool {
        self.geometry.offset == 0 && self.geometry.in_order
    }

    /// How its elements are stored.
    pub fn element(&self) -> ElementFormat {
        self.element
    }

    /// Bytes from the start of the buffer to the first element.
    pub fn offset(&self) -> u64 {
        self.geometry.offset as u64
    }

    /// The extent of each axis.
    pub fn shape(&self) -> &[isize] {
        &self.geometry.shape
    }

    /// Bytes from one element to the next along each axis.
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

impl Geometry {
    /// What a layout says of elements of so many bytes; refuses one that reaches past `bytes`.
    fn new(
        (shape, strides, offset): (Vec<isize>, Vec<isize>, usize),
        itemsize: isize,
        bytes: u64,
    ) -> PyResult<Self> {
        let mut geometry = Geometry {
            offset,
            shape,
            strides,
            size: 0,
            in_order: false,
        };
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

    /// How many elements there are, if all of them lie within so many bytes.
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

    /// Whether the elements lie one after the other, with the last axis fastest or the first.
    fn is_contiguous(&self, itemsize: isize, last_fastest: bool) -> bool {
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

/// What an operator gives: an array, or NotImplemented.
type Operated<'py> = PyResult<Bound<'py, PyAny>>;

/// Whether the consumer asked for this, by all of its bits.
fn asks(flags: c_int, wanted: c_int) -> bool {
    flags & wanted == wanted
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (*parts), text_signature = "(device, buffer, dtype, layout)")]
    fn new(py: Python<'_>, parts: &Bound<'_, PyTuple>) -> PyResult<Self> {
        if parts.is_empty()
            && let Some(ready) = READY.take()
        {
            return Ok(ready);
        }
        let (device, buffer, dtype, layout): (_, Py<Memory>, Py<PyAny>, Py<PyAny>) =
            parts.extract()?;
        let (element, itemsize) = described(dtype.bind(py))?;
        let geometry = Geometry::new(layout.extract(py)?, itemsize, buffer.get().bytes())?;
        Ok(PyArray {
            device,
            dtype,
            layout,
            block: Arc::clone(buffer.get()),
            buffer: buffer.into(),
            geometry: Arc::new(geometry),
            itemsize,
            element,
        })
    }

    /// The memory.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> PyResult<Py<Memory>> {
        if let Some(made) = self.buffer.get() {
            return Ok(made.clone_ref(py));
        }
        let made = Py::new(py, Memory::new(Arc::clone(&self.block)))?;
        Ok(self.buffer.get_or_init(|| made).clone_ref(py))
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "add"), slf, other)
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "add"), other, slf)
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "subtract"), slf, other)
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "subtract"), other, slf)
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "multiply"), slf, other)
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "multiply"), other, slf)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "divide"), slf, other)
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "divide"), other, slf)
    }

    fn __floordiv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "floor_divide"), slf, other)
    }

    fn __rfloordiv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "floor_divide"), other, slf)
    }

    fn __mod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "remainder"), slf, other)
    }

    fn __rmod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "remainder"), other, slf)
    }

    fn __and__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_and"), slf, other)
    }

    fn __rand__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_and"), other, slf)
    }

    fn __or__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_or"), slf, other)
    }

    fn __ror__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_or"), other, slf)
    }

    fn __xor__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_xor"), slf, other)
    }

    fn __rxor__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_xor"), other, slf)
    }

    fn __lshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_left_shift"), slf, other)
    }

    fn __rlshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_left_shift"), other, slf)
    }

    fn __rshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_right_shift"), slf, other)
    }

    fn __rrshift__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> Operated<'py> {
        operators::binary(intern!(slf.py(), "bitwise_right_shift"), other, slf)
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        operators::unary(intern!(slf.py(), "negative"), slf)
    }

    fn __pos__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        operators::unary(intern!(slf.py(), "positive"), slf)
    }

    fn __abs__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        operators::unary(intern!(slf.py(), "abs"), slf)
    }

    fn __invert__<'py>(slf: &Bound<'py, Self>) -> Operated<'py> {
        operators::unary(intern!(slf.py(), "bitwise_invert"), slf)
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
        let memory = &array.block;
        guarded("buffer", || {
            memory.alive("buffer")?;
            if asks(flags, ffi::PyBUF_WRITABLE) && !memory.is_writable() {
                return Err(PyBufferError::new_err(
                    "buffer: expected writable memory, got memory borrowed for reading only",
                ));
            }
            let geometry = &array.geometry;
            let in_columns = || geometry.is_contiguous(array.itemsize, false);
            let refused = (asks(flags, ffi::PyBUF_C_CONTIGUOUS) && !geometry.in_order)
                || (asks(flags, ffi::PyBUF_F_CONTIGUOUS) && !in_columns())
                || (!asks(flags, ffi::PyBUF_STRIDES) && !geometry.in_order);
            if refused {
                return Err(PyBufferError::new_err(format!(
                    "buffer: expected contiguous memory, got shape {:?} with strides {:?}",
                    geometry.shape, geometry.strides
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
            // changed and lives as long as this object, to which the view holds a reference; the bytes
            // live as long, because `free` refuses while there are exports.
            unsafe {
                (*view).buf = pointer.wrapping_add(geometry.offset).cast::<c_void>();
                (*view).obj = slf.clone().into_any().into_ptr();
                (*view).len = array.size() * array.itemsize;
                (*view).itemsize = array.itemsize;
                (*view).readonly = c_int::from(!memory.is_writable());
                (*view).ndim = geometry.shape.len() as c_int;
                (*view).format = format;
                (*view).shape = list(&geometry.shape, asks(flags, ffi::PyBUF_ND));
                (*view).strides = list(&geometry.strides, asks(flags, ffi::PyBUF_STRIDES));
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
        self.block.unexport();
    }
}
