//! The input columns and output rows of tapes, as Python arguments.

use assay_tape::Input;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};

use crate::float_buffer::FloatBuffer;

/// One value per point, or one for all points.
enum Column {
    Uniform(f64),
    Varying(FloatBuffer),
}

/// A sequence of numbers and buffers.
pub(crate) struct Columns(Vec<Column>);

impl Columns {
    pub(crate) fn read(sequence: &Bound<'_, PyAny>, what: &str) -> PyResult<Columns> {
        let items = sequence.try_iter()?.enumerate();
        items
            .map(|(index, item)| Columns::item(&item?, what, index))
            .collect::<PyResult<_>>()
            .map(Columns)
    }

    fn item(item: &Bound<'_, PyAny>, what: &str, index: usize) -> PyResult<Column> {
        if let Ok(number) = item.cast::<PyFloat>() {
            return Ok(Column::Uniform(number.value()));
        }
        match PyUntypedBuffer::get(item) {
            Ok(buffer) if buffer.dimensions() > 0 => {
                let name = format!("{what} {index}");
                FloatBuffer::from_untyped(buffer, &name).map(Column::Varying)
            }
            _ => item.extract().map(Column::Uniform).map_err(|_| {
                PyValueError::new_err(format!(
                    "{what} {index}: expected a number or a float64 buffer, got {}",
                    item.get_type()
                ))
            }),
        }
    }

    pub(crate) fn buffers(&self) -> Vec<&FloatBuffer> {
        let buffer = |column| match column {
            &Column::Uniform(_) => None,
            Column::Varying(buffer) => Some(buffer),
        };
        self.0.iter().filter_map(buffer).collect()
    }

    /// # Safety
    ///
    /// Nothing may write to the buffers while the result is in use.
    pub(crate) unsafe fn as_inputs(&self) -> Vec<Input<'_>> {
        let input = |column| match column {
            &Column::Uniform(value) => Input::Uniform(value),
            // SAFETY: guaranteed by the caller.
            Column::Varying(buffer) => Input::Varying(unsafe { buffer.as_slice() }),
        };
        self.0.iter().map(input).collect()
    }
}

/// The output buffers: one per row, or one for all.
pub(crate) struct Rows {
    buffers: Vec<FloatBuffer>,
    count: usize,
    length: usize,
}

impl Rows {
    /// Pins `out`: a list or tuple of buffers of `length`, or one buffer of `count` rows.
    pub(crate) fn get(
        out: &Bound<'_, PyAny>,
        what: &str,
        count: usize,
        length: usize,
    ) -> PyResult<Rows> {
        let buffers = if out.is_instance_of::<PyList>() || out.is_instance_of::<PyTuple>() {
            let items: Vec<Bound<'_, PyAny>> = out.extract()?;
            let buffer =
                |(index, item)| FloatBuffer::get_writable(item, &format!("{what} {index}"));
            let buffers = items.iter().enumerate().map(buffer).collect::<PyResult<Vec<_>>>()?;
            Rows::check_shapes(&buffers, what, count, length)?;
            buffers
        } else {
            let buffer = FloatBuffer::get_writable(out, "out")?;
            if buffer.shape() != [count, length] {
                let got = buffer.shape();
                return Err(PyValueError::new_err(format!(
                    "out: expected shape [{count}, {length}], got {got:?}"
                )));
            }
            vec![buffer]
        };
        Ok(Rows { buffers, count, length })
    }

    fn check_shapes(
        buffers: &[FloatBuffer],
        what: &str,
        count: usize,
        length: usize,
    ) -> PyResult<()> {
        if buffers.len() != count {
            let got = buffers.len();
            return Err(PyValueError::new_err(format!("out: expected {count} buffers, got {got}")));
        }
        for (index, buffer) in buffers.iter().enumerate() {
            if buffer.len() != length {
                let got = buffer.len();
                return Err(PyValueError::new_err(format!(
                    "{what} {index}: expected {length} elements, got {got}"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn buffers(&self) -> Vec<&FloatBuffer> {
        self.buffers.iter().collect()
    }

    /// # Safety
    ///
    /// Nothing else may access the buffers while the result is in use.
    pub(crate) unsafe fn as_rows(&mut self) -> Vec<&mut [f64]> {
        if self.length == 0 {
            return (0..self.count).map(|_| Default::default()).collect();
        }
        let mut rows = Vec::with_capacity(self.count);
        for buffer in &mut self.buffers {
            // SAFETY: guaranteed by the caller.
            let slice = unsafe { buffer.as_mut_slice() };
            rows.extend(slice.chunks_exact_mut(self.length));
        }
        rows
    }
}
