//! A list of texts in a mapped file, which stay there until they are asked for.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use assay_formats::Mapping;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::runtime::errors;

/// A list of texts of a mapped file.
#[pyclass(module = "assay._native", frozen)]
pub(crate) struct StoredTexts {
    mapping: Arc<Mapping>,
    key: String,
    ranges: Vec<Range<usize>>,
}

impl StoredTexts {
    /// Notes where texts are, which are parts of the mapping.
    pub(crate) fn new<'a>(
        mapping: &'a Arc<Mapping>,
        key: &str,
        texts: impl Iterator<Item = &'a str>,
    ) -> Self {
        let first = mapping.bytes().as_ptr().addr();
        let range = |text: &str| {
            let start = text.as_ptr().addr() - first;
            start..start + text.len()
        };
        StoredTexts {
            mapping: Arc::clone(mapping),
            key: key.to_owned(),
            ranges: texts.map(range).collect(),
        }
    }

    fn text(&self, place: usize) -> PyResult<&str> {
        let Some(range) = self.ranges.get(place) else {
            return Err(PyIndexError::new_err(place));
        };
        // They were looked at when the file was opened; only a file that was changed since fails.
        std::str::from_utf8(&self.mapping.bytes()[range.clone()])
            .map_err(|error| self.wrong(place, "text", &error.to_string()))
    }

    fn wrong(&self, place: usize, expected: &str, got: &str) -> PyErr {
        let text = format!("{} {place}: expected {expected}, got {got}", self.key);
        errors::of_class("InputError", "text", &text)
    }
}

#[pymethods]
impl StoredTexts {
    fn __len__(&self) -> usize {
        self.ranges.len()
    }

    fn __getitem__(&self, place: usize) -> PyResult<&str> {
        self.text(place)
    }

    /// The texts with their places; a text that occurs twice has its last place.
    ///
    /// `within` leaves out all that do not occur in it.
    #[pyo3(signature = (within = None))]
    fn places<'py>(&self, py: Python<'py>, within: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
        let places = PyDict::new(py);
        let within = within.map(Within::new);
        for place in 0..self.ranges.len() {
            let text = self.text(place)?;
            if within.as_ref().is_none_or(|within| within.has(&[text])) {
                places.set_item(text, place)?;
            }
        }
        Ok(places)
    }

    /// A text that occurs twice; nothing where each occurs once.
    fn repeated(&self) -> PyResult<Option<&str>> {
        let mut known = HashSet::with_capacity(self.ranges.len());
        for place in 0..self.ranges.len() {
            let text = self.text(place)?;
            if !known.insert(text) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// The texts, each split in two at the first space that does not begin it.
    ///
    /// `within` leaves out all whose two parts, put together, do not occur in it.
    #[pyo3(signature = (within = None))]
    fn pairs<'py>(&self, py: Python<'py>, within: Option<&str>) -> PyResult<Bound<'py, PyList>> {
        let mut pairs = Vec::new();
        let within = within.map(Within::new);
        for place in 0..self.ranges.len() {
            let text = self.text(place)?;
            let space = text.bytes().skip(1).position(|byte| byte == b' ');
            let Some(at) = space.map(|at| at + 1) else {
                return Err(self.wrong(place, "two texts and a space", &format!("{text:?}")));
            };
            let (first, second) = (&text[..at], &text[at + 1..]);
            let within = within.as_ref();
            if within.is_none_or(|within| within.has(&[first, second])) {
                pairs.push((first, second).into_pyobject(py)?);
            }
        }
        PyList::new(py, pairs)
    }
}

/// A text in which others are looked for.
struct Within<'a> {
    text: &'a str,
    /// Which bytes it has: most texts of a vocabulary have another one, and are not looked for.
    bytes: [bool; 256],
}

impl<'a> Within<'a> {
    fn new(text: &'a str) -> Self {
        let mut bytes = [false; 256];
        for byte in text.bytes() {
            bytes[usize::from(byte)] = true;
        }
        Within { text, bytes }
    }

    /// Whether some parts, put together, occur in it.
    fn has(&self, parts: &[&str]) -> bool {
        let possible = |part: &&str| part.bytes().all(|byte| self.bytes[usize::from(byte)]);
        parts.iter().all(possible) && self.text.contains(&parts.concat())
    }
}
